// SPDX-License-Identifier: Apache-2.0
/* Reads the files of a case. PEER, the program's name, begins its errors. */
#ifndef DCGYM_PEERS_CSV_H
#define DCGYM_PEERS_CSV_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace
{

using Row = std::vector<std::string>;

[[noreturn]] void fail(const std::string &what)
{
	std::fprintf(stderr, "%s: %s\n", PEER, what.c_str());
	std::exit(2);
}

/* Rows of a CSV file without quotes; the first line must be the header. */
std::vector<Row> read_csv(const std::string &path, const std::string &header)
{
	std::ifstream file(path);
	std::string line, cell;
	if (!std::getline(file, line) || line != header)
		fail(path + ": the first line is not " + header);
	size_t columns = 1 + std::count(header.begin(), header.end(), ',');
	std::vector<Row> rows;
	while (std::getline(file, line)) {
		Row row;
		std::istringstream cells(line);
		while (std::getline(cells, cell, ','))
			row.push_back(cell);
		if (row.size() != columns)
			fail(path + ": '" + line + "' has not " + std::to_string(columns) + " columns");
		rows.push_back(row);
	}
	return rows;
}

uint64_t number(const std::string &text)
{
	char *end = nullptr;
	uint64_t value = std::strtoull(text.c_str(), &end, 10);
	if (text.empty() || *end)
		fail("'" + text + "' is no number");
	return value;
}

} // namespace

#endif

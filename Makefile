# SPDX-License-Identifier: Apache-2.0
# make demo    the main job, with its plot          make test      the tests
# make setup   everything into ./.venv              make test-all  the long ones too
# make docs    the documentation into build/docs    make lint, make format
# make test-rl the training's tests, with Ray and torch (6 GB on disk)
# All of them install what they need, may be run again at any time, and build the lab kernel once. STRICT=1: warnings are errors.

VENV := .venv
PYTHON := $(VENV)/bin/python
DCGYM := $(VENV)/bin/dcgym
BIN := dc_gym/bin
CC := cc
CLANG := clang
CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra $(if $(STRICT),-Werror)

NIC_ALGORITHMS := $(basename $(notdir $(wildcard ctrl/nic/algorithms/*.h)))
PROGRAMS := $(addprefix $(BIN)/,lab-init lab-launch qmon agentd hostd tgen linkprobe vm-init nicd cctest) \
	$(foreach name,$(NIC_ALGORITHMS),$(addprefix $(BIN)/,ccrun-$(name) nic-$(name).bpf.o cctest-$(name).bpf.o))
C_FILES := $(wildcard kernel/*.c kernel/drivers/*.[ch] traffic/*.[ch] monitors/*.[ch] ctrl/*.[ch] ctrl/nic/*.[ch] ctrl/nic/algorithms/*.h dc_gym/bench/*.[ch] dc_gym/host/*.[ch] tests/c/*.[ch] benchmarks/peers/*.cc)

.PHONY: setup demo test test-all test-rl lint format docs programs kernel openvswitch clean

# One after the other, also with -j: what is built needs the packages, and the kernel's builder the environment.
setup:
	@scripts/packages.sh
	@$(MAKE) --no-print-directory $(VENV)/.installed
	@$(MAKE) --no-print-directory programs kernel openvswitch

demo: setup
	$(DCGYM) demo --out results/demo

test: setup
	@$(MAKE) --no-print-directory lint
	$(PYTHON) -m pytest -m "not long"

test-all: setup
	@$(MAKE) --no-print-directory lint
	@scripts/packages.sh qemu-system-x86 # the host ground is tested in a VM
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,rl]'
	DCGYM_REQUIRE_RL=1 $(PYTHON) -m pytest

test-rl: setup
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,rl]'
	DCGYM_REQUIRE_RL=1 $(PYTHON) -m pytest tests/rl

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(C_FILES)

format: $(VENV)/.installed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(C_FILES)

docs: $(VENV)/.installed
	$(PYTHON) -m mkdocs build --strict
	@echo build/docs/index.html

kernel: $(VENV)/.installed
	@$(DCGYM) kernel build

openvswitch: $(VENV)/.installed
	@$(PYTHON) -c "from dc_gym.kernel import openvswitch; openvswitch.ensure()"

$(VENV)/.installed: pyproject.toml setup.py
	@scripts/venv.sh $(VENV)
	@touch $@

# A run compares this list with the sources that are there, so that a stale program is noticed.
programs: $(PROGRAMS) $(BIN)/sources.sha256

$(BIN):
	mkdir -p $@

$(BIN)/lab-init: kernel/init.c kernel/drivers/lab.h | $(BIN)
	$(CC) $(CFLAGS) -static -o $@ kernel/init.c
	chmod 755 $@

$(BIN)/lab-launch: kernel/launch.c | $(BIN)
	$(CC) $(CFLAGS) -o $@ kernel/launch.c
	chmod 755 $@

SWEEPER := $(addprefix monitors/,sweeper.c program.c fault.c csv.c ports_csv.c netns.c nl.c batch.c qdisc.c matrix.c)
QMON := monitors/qmon.c $(SWEEPER)
$(BIN)/qmon: $(QMON) $(wildcard monitors/*.h) | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -o $@ $(QMON)
	chmod 755 $@

CTRL := $(addprefix ctrl/,load.c hosts_csv.c rates.c control.c) $(SWEEPER)
AGENTD := $(addprefix ctrl/,agentd.c episode.c commands.c) $(CTRL)
$(BIN)/agentd: $(AGENTD) $(wildcard ctrl/*.h monitors/*.h) kernel/drivers/lab.h | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -Ictrl -Ikernel/drivers -o $@ $(AGENTD)
	chmod 755 $@

HOSTD := ctrl/hostd.c $(CTRL)
$(BIN)/hostd: $(HOSTD) $(wildcard ctrl/*.h monitors/*.h) kernel/drivers/lab.h | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -Ictrl -Ikernel/drivers -o $@ $(HOSTD)
	chmod 755 $@

TGEN := $(wildcard traffic/*.c)
$(BIN)/tgen: $(TGEN) $(wildcard traffic/*.h ctrl/nic/*.h) monitors/state_matrix.h | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -Itraffic -Ictrl/nic -o $@ $(TGEN)
	chmod 755 $@

LINKPROBE := dc_gym/bench/linkprobe.c $(addprefix monitors/,netns.c nl.c batch.c qdisc.c)
$(BIN)/linkprobe: $(LINKPROBE) $(wildcard monitors/*.h) | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -o $@ $(LINKPROBE)
	chmod 755 $@

NIC_HEADERS := $(wildcard ctrl/nic/*.h ctrl/nic/algorithms/*.h)
$(BIN)/ccrun-%: ctrl/nic/ccrun.c ctrl/nic/cctrace.c $(NIC_HEADERS) | $(BIN)
	$(CC) $(CFLAGS) -Ictrl/nic -DCC_ALGORITHM='"algorithms/$*.h"' -o $@ ctrl/nic/ccrun.c ctrl/nic/cctrace.c
	chmod 755 $@

$(BIN)/cctest: ctrl/nic/cctest.c ctrl/nic/cctrace.c $(NIC_HEADERS) | $(BIN)
	$(CC) $(CFLAGS) -Ictrl/nic -o $@ ctrl/nic/cctest.c ctrl/nic/cctrace.c -lbpf
	chmod 755 $@

# A NIC's data path, for the BPF machine of the kernel that loads it. clang -target bpf does not look where asm/types.h is.
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra $(if $(STRICT),-Werror) -idirafter /usr/include/$(shell $(CC) -print-multiarch)
$(BIN)/nic-%.bpf.o: ctrl/nic/shim.bpf.c $(NIC_HEADERS) | $(BIN)
	$(CLANG) $(BPF_CFLAGS) -DCC_ALGORITHM='"algorithms/$*.h"' -c -o $@ $<
	chmod 644 $@

$(BIN)/cctest-%.bpf.o: ctrl/nic/cctest.bpf.c $(NIC_HEADERS) | $(BIN)
	$(CLANG) $(BPF_CFLAGS) -DCC_ALGORITHM='"algorithms/$*.h"' -c -o $@ $<
	chmod 644 $@

NICD := $(addprefix ctrl/nic/,nicd.c barrier.c data_path.c hooks.c rows.c nic_csv.c) $(addprefix monitors/,program.c fault.c csv.c)
$(BIN)/nicd: $(NICD) $(NIC_HEADERS) $(wildcard monitors/*.h) | $(BIN)
	$(CC) $(CFLAGS) -Imonitors -Ictrl/nic -Ikernel/drivers -o $@ $(NICD) -lbpf
	chmod 755 $@

$(BIN)/vm-init: dc_gym/host/vm_init.c | $(BIN)
	$(CC) $(CFLAGS) -static -o $@ $<
	chmod 755 $@

SOURCES := kernel/init.c kernel/launch.c kernel/drivers/lab.h $(QMON) $(wildcard monitors/*.h) $(wildcard ctrl/*.[ch] ctrl/nic/*.[ch] ctrl/nic/algorithms/*.h) $(TGEN) $(wildcard traffic/*.h) \
	dc_gym/bench/linkprobe.c dc_gym/host/vm_init.c
$(BIN)/sources.sha256: $(PROGRAMS)
	cd dc_gym && sha256sum $(SOURCES:dc_gym/%=%) > bin/sources.sha256
	chmod 644 $@

clean:
	rm -rf build $(BIN) $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache

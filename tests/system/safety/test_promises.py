# SPDX-License-Identifier: Apache-2.0
"""Each promise of docs/security.md is tried by a test, and each file of tests here belongs to a promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROMISES: dict[str, tuple[str, ...]] = {
    "They write to the run's folders `exec` and `.lab/out`, and to nothing else on the machine.": (
        "tests/system/test_confinement.py::test_outside_its_folders_a_lab_writes_nothing",
    ),
    "Nothing that they write becomes a set-user-ID program.": (
        "test_files_of_a_lab.py::test_no_set_user_id_reaches_the_host",
        "test_files_of_a_lab.py::test_a_run_is_closed_to_others_while_it_lasts",
    ),
    "They have no network but the lab's, and see no process of the machine.": (
        "tests/system/test_confinement.py::test_a_lab_reaches_no_process_of_its_user",
    ),
    "A result has plain files and folders only.": (
        "tests/system/test_confinement.py::test_a_result_has_nothing_that_leads_elsewhere",
    ),
    "A shell keeps of a lab only new files below one folder, no larger than the lab's memory.": (
        "tests/cli/shell/test_shell.py::test_a_lab_names_no_file_outside",
        "tests/cli/shell/test_shell.py::test_a_lab_fills_no_disk",
    ),
    "Only its user gets a second prompt on a shell.": (
        "tests/cli/shell/test_shell.py::test_a_second_prompt_at_a_shell_that_waits",
    ),
    "A lab that meets the machine's limit of open files makes its run unfit.": (
        "test_descriptors.py::test_a_lab_without_descriptors_makes_the_run_unfit",
        "test_descriptors.py::test_a_lab_lives_through_1000_resets",
    ),
    "It types nothing into its user's terminal.": (
        "test_terminal_input.py::test_a_lab_neither_types_into_the_terminal_nor_changes_it",
    ),
    "It reads no file of `/dev`, `/proc`, `/run` and `/sys` but its own.": (
        "test_terminal_input.py::test_a_lab_reads_no_device_of_its_user_and_nothing_of_the_machine",
    ),
    "It changes no mode, owner, time or size of files outside, and locks none.": (
        "test_launcher_walls.py::test_modes_owners_times_and_sizes_outside_stay_as_they_are",
        "test_launcher_walls.py::test_files_outside_stay_as_they_are",
    ),
    "It does not limit, slow down, trace or read other processes.": (
        "test_launcher_walls.py::test_other_processes_are_not_touched",
    ),
    "It sends nothing to sockets, queues and memory of others.": ("test_launcher_walls.py::test_nothing_is_said_to_others",),
    "System calls that nobody thought of are refused.": ("test_launcher_walls.py::test_no_large_interface_is_open",),
    "Its answers while the host sets it up are checked.": ("test_lying_lab.py::test_a_lab_that_lies_ends_the_run_in_one_line",),
    "It signals its own processes only (Linux 6.12).": (
        "test_launcher_walls.py::test_signals_stay_among_its_own_where_landlock_can",
    ),
    "The host reads and writes nothing beyond the lab's memory.": (
        "test_lab_memory.py::test_nothing_behind_the_memory_is_read",
        "test_lab_memory.py::test_actuators_that_were_not_planned_are_refused",
    ),
    "No command, lab, environment or training imports a file of it.": (
        "test_current_folder.py::test_runs_import_nothing_from_there",
        "test_current_folder.py::test_one_place_starts_pythons",
    ),
    "A lab's program is code of dc-gym, Mininet and Python alone.": (
        "test_current_folder.py::test_frozen_modules_from_elsewhere_are_not_used",
    ),
    "No library takes settings from it.": (
        "test_settings_of_libraries.py::test_a_stranger_s_result_is_plotted_from_within_without_its_matplotlibrc",
    ),
    "Its name is a name, whatever characters it has.": ("test_option_syntax.py::test_a_folder_s_name_is_no_option_of_qemu_s",),
    "A lab runs as the user behind sudo, or as `nobody`, without any right of root's.": (
        "tests/system/test_confinement.py::test_a_lab_of_roots_has_no_right_of_roots",
    ),
    "Root removes, gives away and opens only files that it made.": (
        "test_removal.py::test_the_labs_user_cannot_turn_roots_removal_of_its_memory",
        "test_removal.py::test_the_labs_user_cannot_turn_what_root_does_in_a_runs_folder",
    ),
    "Root runs programs by their SHA-256, from a cache that is root's alone.": (
        "tests/base/test_contents.py::test_root_runs_no_program_that_was_changed",
        "tests/base/test_contents.py::test_root_refuses_a_cache_that_others_may_change",
    ),
    "After kill -9 the host ground leaves the machine as it was.": (
        "test_host_ground.py::test_the_machine_is_as_it_was_after_kill_9_in_each_phase",
    ),
    "Reading a result runs no code.": ("test_trust.py::test_reading_asks_for_no_trust_and_runs_nothing",),
    "Code, programs and checkpoints of others run only with `--trust`.": (
        "test_trust.py::test_an_unpacked_result_runs_only_with_trust",
        "test_trust.py::test_an_unpacked_training_is_read_only_with_trust",
    ),
    "A list of trusted code that others could write counts as empty.": (
        "test_trust.py::test_a_list_that_others_could_write_counts_as_empty",
    ),
    "A file that states too much is refused unread.": (
        "test_bombs.py::test_a_policy_that_states_too_much",
        "test_bombs.py::test_a_page_that_is_larger_than_its_file_states",
    ),
    "Names and texts do not command your terminal.": ("tests/base/test_terminal.py::test_commands_show_no_control_characters",),
    "A damaged or forged result is an error of one line.": (
        "test_tracebacks.py::test_a_value_of_another_type_in_a_result_is_one_line",
    ),
    "`dcgym clean` removes dc-gym's files alone.": ("test_clean_foreign.py::test_users_files_with_a_like_name_stay",),
    "Temporary files are written through no link.": (
        "test_temporary_names.py::test_what_is_put_in_the_place_of_the_temporary_file_is_not_written",
    ),
    "A forked child harms no lab of its parent.": ("test_forks.py::test_what_a_child_does_harms_nothing",),
    "A lab lives as long as its process, not its thread.": (
        "test_threads.py::test_a_lab_outlives_the_thread_that_started_it",
        "test_forks.py::test_a_lab_ends_with_its_process_although_a_child_lives_on",
    ),
    "A training's Ray is its user's alone.": ("test_ray_folder.py::test_nobody_lists_moves_or_reaches_rays_sockets",),
    "No file of the machine image has a secret.": (
        "test_vm_image_token.py::test_no_file_of_the_image_has_a_token_or_a_password",
    ),
    "`dcgym vm` makes no set-user-ID file on the machine.": (
        "test_option_syntax.py::test_what_runs_a_vm_makes_no_file_that_runs_as_its_owner",
    ),
    "Hashes ensure that the installed files are the tested ones.": (
        "test_supply.py::test_each_package_of_a_lock_has_a_version_and_hashes",
    ),
}
"""The tests that try to break each promise; files without a folder lie here."""


def place(name: str) -> Path:
    return ROOT / name if "/" in name else HERE / name


def test_the_page_has_these_promises_and_no_others() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    section = page.partition("\n## What is promised\n")[2].partition("\n## ")[0]
    assert re.findall(r"^- (.*)$", section, re.MULTILINE) == list(PROMISES)


def test_each_promise_names_a_test_that_is_there() -> None:
    for promise, tests in PROMISES.items():
        assert tests, promise
        for file, function in (test.split("::") for test in tests):
            functions = {node.name for node in ast.parse(place(file).read_text()).body if isinstance(node, ast.FunctionDef)}
            assert function in functions, f"{promise} {file}::{function}"


def test_each_file_of_tests_belongs_to_a_promise() -> None:
    files = {place(test.split("::")[0]) for tests in PROMISES.values() for test in tests} | {Path(__file__)}
    unnamed = {path.name for path in HERE.glob("test_*.py")} - {file.name for file in files}
    assert unnamed <= {"test_faults.py"}, "what the disturbed benches found is a promise of docs/results.md"

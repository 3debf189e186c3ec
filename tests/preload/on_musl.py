"""Which tests of this folder run on the library for musl (HAKMEM_TEST_LIBC=musl), and why others are left out.

A file that is not named here starts programs of glibc, which cannot load that library, or tests glibc's own."""

from __future__ import annotations

FILES = (
    "attach", "fork", "idle_memory", "learn_file", "living_threads", "pid_namespace", "profile", "profile_probes",
    "profile_running", "purge_thread", "rights", "signals", "stats_while_running", "threads_at_exit", "trace",
)  # fmt: skip
_GLIBC_PROGRAM = "it starts a program of glibc, which cannot load a library for musl"
_FLUSHED_TWICE = "musl flushes its stream twice, with its own malloc too"
LEFT_OUT = {
    "test_exec_leaves_the_name_to_the_next_program": _GLIBC_PROGRAM,
    "test_a_limit_on_files_costs_the_trace_and_not_the_program": _GLIBC_PROGRAM,
    "test_the_tool_replays_it": "the tool loads libhakmem-policy.so, which is built for glibc",
    "test_one_name_is_the_parents": _GLIBC_PROGRAM,
    "test_children[vfork]": _GLIBC_PROGRAM,
    "test_end_of_the_process[exec]": _GLIBC_PROGRAM,
    "test_no_room_for_the_file": _GLIBC_PROGRAM,
    "test_go_reads_a_real_program": _GLIBC_PROGRAM,
    "test_who_learns_nothing_leaves_it_alone": _GLIBC_PROGRAM,
    "test_a_limit_on_files_costs_what_was_learned_and_not_the_program": _GLIBC_PROGRAM,
    "test_spawn": _GLIBC_PROGRAM,
    "test_fork_while_streams_are_locked": "its popen starts a shell of glibc",
    "test_fork_with_handlers_that_allocate": "it reads what glibc's dynamic linker prints with LD_DEBUG",
    "test_of_a_library_loaded_late": "on musl the library cannot be opened with dlopen (docs/limits.md)",
    "test_handlers_that_sleep": "its program needs functions of glibc",
    "test_stacks_of_coroutines_may_be_unmapped": "its program needs functions of glibc",
    "test_cancelled_threads": "the program hangs on musl's own malloc too",
    "test_detached_threads_at_exit": _FLUSHED_TWICE,
    "test_detached_threads_while_stats_are_written": _FLUSHED_TWICE,
    "test_it_may_have_no_descriptor": _GLIBC_PROGRAM,
    "test_it_may_have_few_descriptors": _GLIBC_PROGRAM,
    "test_a_signal_that_is_in_use": _GLIBC_PROGRAM,
    "test_users_without_a_number": _GLIBC_PROGRAM,
    "test_code_that_is_rebuilt": "musl unloads no library",
}


def reason_to_leave_out(file: str, name: str) -> str | None:
    """Of a test, by the names of its file and itself."""
    if file.removeprefix("test_") not in FILES:
        return "the file is left out on musl (on_musl.py)"
    return LEFT_OUT.get(name) or LEFT_OUT.get(name.partition("[")[0])

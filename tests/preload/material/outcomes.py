"""Runs a test module of CPython's own suite and prints each test's outcome, sorted: outcomes.py MODULE [PATTERN]

With PATTERN only the tests whose name contains it. What the tests themselves print goes to stderr.
"""

import os
import sys
import unittest


class Outcomes(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = {}

    def addSuccess(self, test):
        self.lines.setdefault(test.id(), "ok")

    def addFailure(self, test, error):
        self.lines[test.id()] = "FAIL"
        sys.stderr.write(self._exc_info_to_string(error, test))

    def addError(self, test, error):
        self.lines[test.id()] = "ERROR"
        sys.stderr.write(self._exc_info_to_string(error, test))

    def addSkip(self, test, reason):
        self.lines[test.id()] = "skipped"

    def addExpectedFailure(self, test, error):
        self.lines[test.id()] = "failed as expected"

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addError(test, error)


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main():
    output = os.dup(1)
    os.dup2(2, 1)
    suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
    if len(sys.argv) > 2:
        suite = unittest.TestSuite(test for test in tests_of(suite) if sys.argv[2] in test.id())
    result = Outcomes()
    suite.run(result)
    with os.fdopen(output, "w") as stream:
        stream.writelines(f"{name} {outcome}\n" for name, outcome in sorted(result.lines.items()))
    return any(outcome in ("FAIL", "ERROR") for outcome in result.lines.values())


if __name__ == "__main__":
    sys.exit(main())

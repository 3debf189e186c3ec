"""`hakmem explain`: why memory is resident, and what to do about it."""

from __future__ import annotations

import json
from typing import Iterator, List, Optional

import click

from hakmem import next_step
from hakmem.errors import printable, say
from hakmem.explain.explain import explain as explained
from hakmem.explain.explanation import Evidence, Explanation, Part, as_json
from hakmem.explain.gather import of_subject
from hakmem.folding import columns, fold, known_columns
from hakmem.output import end_with, reserve, write_each
from hakmem.process_or_program import is_process

_WIDTH = 110


@click.command()
@click.option(
    "--profile", "profile", metavar="FILE", help="A profile of the same time, for the sites that hold memory."
)
@click.option("--json", "json_file", metavar="FILE", help="Write it as JSON; - is stdout, instead of the text.")
@click.argument("subject", metavar="PID | SNAPSHOT")
def explain(profile: Optional[str], json_file: Optional[str], subject: str) -> None:
    """Explain why memory is resident, and what to do about each part.

    PID is a running program, SNAPSHOT a file with the output of `hakmem stats --json`.
    """
    with reserve(json_file) as (output,):
        evidence = of_subject(subject, profile)
        explanation = explained(evidence)
        for note in evidence.sites.notes if evidence.sites is not None else ():
            say(f"note: {printable(note)}")
        failures = write_each([(output, lambda: json.dumps(as_json(evidence, explanation), indent=1) + "\n")])
    if json_file != "-":
        click.echo("\n".join(printable(line) for line in lines(evidence, explanation)))
        given = next_step.options({"--profile": profile, "--from": not is_process(subject)})
        named = subject if is_process(subject) else next_step.file(subject)
        next_step.tell(f"hakmem report {next_step.words(['-o', 'page.html', *given, named])}")
    end_with(failures)


def lines(evidence: Evidence, explanation: Explanation) -> Iterator[str]:
    """For people."""
    snapshot = evidence.snapshot
    name = f" ({evidence.process})" if evidence.process else ""
    yield f"process {snapshot.pid or '?'}{name}, hakmem {snapshot.version}"
    if known_columns() is None:
        yield explanation.equation
    else:
        yield from _wrapped("", explanation.equation, "")
    for note in explanation.notes:
        yield from _wrapped("note: ", note, "")
    for part in explanation.parts:
        yield ""
        yield from _of_part(explanation, part)


def _of_part(explanation: Explanation, part: Part) -> Iterator[str]:
    yield f"{part.title}: {explanation.size_of(part)}, {explanation.share_of(part)}"
    yield from _wrapped("", part.what, "  ")
    for label, texts in (("why", part.why), ("do", part.todo), ("not known", part.unknown)):
        for text in texts:
            yield from _wrapped(f"{label}: ", text, "  ")


def _wrapped(label: str, text: str, indent: str) -> List[str]:
    head = f"{indent}{label}"
    return fold(text, columns(_WIDTH), " " * len(head), head)

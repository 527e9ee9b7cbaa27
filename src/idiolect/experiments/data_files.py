"""Files of data that an experiment names, known by their content."""

from pathlib import Path

from idiolect import catalog
from idiolect.data.named_files import content_digest, find_files
from idiolect.errors import UserMistake
from idiolect.experiments.value import Experiment
from idiolect.options import file_options
from idiolect.registry import Choice

_DIGEST = "digest"  # the option that says what the files held


def with_digests(experiment: Experiment, data_dir: Path | None = None) -> Experiment:
    """The experiment with a digest of the files that its problem names; refused if it says another one already."""
    problem = experiment.problem
    if not isinstance(problem, Choice) or problem.name not in catalog.PROBLEMS:
        return experiment
    options = dict(problem.options)
    for option in file_options(catalog.PROBLEMS[problem.name]):
        if option not in options:
            continue
        found = content_digest(find_files(options[option], data_dir))
        if options.get(_DIGEST, found) != found:
            raise UserMistake(
                f"problem.{option} {options[option]} has other content than problem.{_DIGEST} {options[_DIGEST]} says; "
                "bring back the file, or run anew into another folder"
            )
        options[_DIGEST] = found
    return experiment.replace(problem=Choice(problem.name, options))

"""The experiment that trains the models with which another one begins."""

from idiolect.experiments.value import Experiment


def pretraining(experiment: Experiment) -> Experiment:
    """What `start.pretrain` asks for, as an experiment of its own: one algorithm, its own horizon, the same seeds.

    Problem, network and training are those of the experiment. A timeline of one's own and an attack are not: they
    belong to what is compared.
    """
    start = experiment.start
    assert start is not None
    assert start.pretrain is not None
    own = start.horizon is not None or start.rounds is not None
    until, rounds = (start.horizon, start.rounds) if own else (experiment.horizon, experiment.rounds)
    evaluation = experiment.evaluation.model_copy(update={"points": 1, "times": None, "last": 1, "references": []})
    return experiment.replace(
        name=f"{experiment.name[:70]}-start",
        description="The models with which another run begins",
        algorithms=[start.pretrain],
        horizon=until,
        rounds=rounds,
        evaluation=evaluation,
        timeline=None,
        attack=None,
        start=None,
        chosen=None,
        factory=None,
    )

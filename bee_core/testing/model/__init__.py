"""The model test: the same random steps on a broker and on a small model of what it promises.

    from bee_core.testing.model import run_model

    run_model(lambda: connect("redis://127.0.0.1"), runs=200)

or, from a shell, with a card that says what was checked: `python -m bee_core.testing.model URL`.

`promises.py`, with `messages.py`, is the model, and short; `steps.py` says which steps there are,
`driver.py` takes one, `look.py` compares all there is to see then, and `machine.py` binds it to
Hypothesis, which finds the shortest run that shows a fault. Hypothesis is not among what bee-jobs
depends on.
"""

try:
    import hypothesis as hypothesis
except ImportError as error:
    raise ImportError("the model test needs Hypothesis: pip install hypothesis") from error

from bee_core.testing.model.card import Card
from bee_core.testing.model.machine import examine, run_model

__all__ = ["Card", "examine", "run_model"]

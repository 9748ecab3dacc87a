import pytest

from gpulayer_nb.errors import UsageError
from gpulayer_nb.records.fit_options import FitOptions


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_epochs": -2}, "max_epochs is -2; it is a whole number of at least 0"),
        ({"accumulate_grad_batches": 0}, "accumulate_grad_batches is 0"),
        ({"precision": "64"}, "precision is '64'; it is one of 32, bf16-mixed, 16-mixed"),
        ({"gradient_clip_val": -1.0}, "gradient_clip_val is -1.0"),
        ({"gradient_clip_val": "1"}, "gradient_clip_val is '1'"),
        (
            {"limit_train_batches": 1.5},
            r"limit_train_batches is 1\.5; it is a number of batches, .* or a share from 0\.0 to 1\.0",
        ),
        ({"limit_val_batches": -1}, "limit_val_batches is -1"),
        ({"limit_test_batches": True}, "limit_test_batches is True"),
        ({"max_time_seconds": 0}, "max_time_seconds is 0"),
        ({"max_epochs": None}, "the run would never end"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_the_right_form(wrong, message):
    with pytest.raises(UsageError, match=message):
        FitOptions(**wrong)

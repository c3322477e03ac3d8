"""A model on a GPU: hooks get tensors there, which torch takes as they lie."""
import numpy as np
import pytest

import headwise as hw
from conftest import MODEL

LINE = "The captain looked at the sea."
SITE = "layer.3.attention.head_output"


@pytest.fixture(scope="module")
def g():
    try:
        return hw.load(MODEL, "cuda", type="f32")
    except ValueError as error:
        pytest.skip(f"NOTHING WAS TESTED ON A GPU: {error}")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="NO TORCH HERE")


def test_a_run_on_a_gpu_is_near_the_cpus(m, g):
    np.testing.assert_allclose(g.run(LINE)[0], m.run(LINE)[0], atol=1e-2)


def test_torch_takes_a_hooks_tensor_without_a_copy(g, torch):
    seen = []

    def close(site, x):
        z = torch.from_dlpack(x)
        assert z.is_cuda and z.data_ptr() == x.pointer
        assert hw.Tensor(z, 1).pointer == x.pointer
        z[:, 2] = 0
        seen.append(x.numpy())
    with g.hook(SITE, close):
        hooked = g.run(LINE)[0]
    with g.edit(drop=[(3, 2)]):
        np.testing.assert_allclose(hooked, g.run(LINE)[0], atol=1e-4)
    assert seen[0].shape[1:] == (8, 16)


def test_a_tensor_of_torch_replaces(g, torch):
    with g.hook(SITE, lambda site, x: torch.from_dlpack(x) * 0):
        hooked = g.run(LINE)[0]
    with g.edit(drop=[(3, head) for head in range(8)]):
        np.testing.assert_allclose(hooked, g.run(LINE)[0], atol=1e-4)

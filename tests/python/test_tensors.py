"""Arrays are the library's memory; DLPack hands it on without a copy."""
import gc

import numpy as np
import pytest

import headwise as hw

LINE = "The captain looked at the sea."


def pointer(array):
    return array.__array_interface__["data"][0]


def test_dlpack_goes_round_without_a_copy(m):
    out, cache = m.run(LINE, cache=["layer.0.attention.query"])
    for array in (out, cache["layer.0.attention.query"]):
        ours = hw.Tensor(array)
        assert ours.pointer == pointer(array)
        assert ours.shape == array.shape and ours.dtype == "f32"
        back = np.from_dlpack(ours)
        assert pointer(back) == pointer(array)
        np.testing.assert_array_equal(back, array)
        again = np.from_dlpack(hw.Tensor(ours))
        assert pointer(again) == pointer(array)
        assert pointer(ours.numpy()) == pointer(array)


def test_memory_lives_as_long_as_an_array_of_it(m):
    def last(_):
        out, _ = m.run(LINE)
        return np.from_dlpack(hw.Tensor(out))
    kept = [last(i) for i in range(8)]
    gc.collect()
    want = m.run(LINE)[0]
    for one in kept:
        np.testing.assert_array_equal(one, want)


@pytest.mark.parametrize("kind", ["f4", "f8", "f2", "i8", "i4", "i2", "i1",
                                  "u1"])
def test_types_and_strides_are_kept(kind):
    array = np.arange(24).reshape(2, 3, 4).astype(kind)
    for view in (array, array[:, ::2], array.T, array[1]):
        back = np.from_dlpack(hw.Tensor(view))
        assert back.dtype == view.dtype and back.strides == view.strides
        assert pointer(back) == pointer(view)
        np.testing.assert_array_equal(back, view)


def test_the_host_has_no_stream():
    array = np.arange(6, dtype=np.float32)
    tensor = hw.Tensor(array, stream=7)  # NumPy would refuse to be told one
    assert tensor.pointer == pointer(array) and tensor.stream is None
    assert pointer(np.from_dlpack(tensor)) == pointer(array)


def test_a_capsule_is_taken_once():
    tensor = hw.Tensor(np.zeros(3, np.float32))
    assert tensor.__dlpack_device__() == (1, 0) and tensor.device == "cpu"
    unused = tensor.__dlpack__()
    del unused
    np.testing.assert_array_equal(np.from_dlpack(tensor), 0)
    assert "f32 [3]" in repr(tensor)


def test_what_cannot_be_taken_is_told():
    with pytest.raises(ValueError, match="__dlpack__"):
        hw.Tensor([1, 2, 3])
    with pytest.raises(ValueError, match="elements of"):
        hw.Tensor(np.zeros(3, np.complex64))
    with pytest.raises(ValueError, match="six sizes"):
        hw.Tensor(np.zeros((1,) * 7, np.float32))


def test_assigning_copies_and_converts():
    to = np.zeros((2, 3), np.float32)
    hw.Tensor(to).assign(hw.Tensor(np.arange(6.0).reshape(2, 3)))
    np.testing.assert_array_equal(to, np.arange(6).reshape(2, 3))
    with pytest.raises(ValueError):
        hw.Tensor(to).assign(hw.Tensor(np.zeros(4)))


def test_torch_takes_arrays_without_a_copy(m):
    torch = pytest.importorskip("torch", reason="NO TORCH HERE")
    out, _ = m.run(LINE)
    assert torch.from_dlpack(out).data_ptr() == pointer(out)
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    ours = hw.Tensor(x)
    assert ours.pointer == x.data_ptr() and ours.dtype == "bf16"
    np.testing.assert_array_equal(ours.numpy(), np.arange(6).reshape(2, 3))

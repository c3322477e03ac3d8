// Tensors as Python sees them: on the host NumPy arrays over our memory, on a
// device Tensor, which torch takes by DLPack; neither is copied.
#pragma once

#include <memory>
#include <utility>

#include "binding.h"
#include "headwise/context.h"
#include "headwise/tensor.h"
#include "whole.h"

namespace headwise::python {

// Memory with what keeps it: of ours, or of another library.
struct PyTensor {
  TensorView view = {};
  std::shared_ptr<void> owner = {};
  // Of memory on a device: whose queue writes it.
  std::shared_ptr<Context> context = {};
};

// Memory of an array with __dlpack__, or of the capsule that it gives. stream
// is what __dlpack__ takes: who gives waits for what it still does.
PyTensor FromDlpack(const py::object& object,
                    const py::object& stream = py::none());

// A NumPy array over a tensor of the host; None of an empty one.
py::object ToNumpy(Tensor tensor);
py::object ToNumpy(std::shared_ptr<Tensor> tensor);

}  // namespace headwise::python

namespace pybind11::detail {
template <>
struct type_caster<headwise::python::PyTensor>
    : headwise::python::WholeCaster<headwise::python::PyTensor> {};
}  // namespace pybind11::detail

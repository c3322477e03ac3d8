// What the files of the module share. Each adds its part; module.cc calls them.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace headwise::python {

namespace py = pybind11;
using py::literals::operator""_a;

void AddErrors(py::module_& module);
void AddTensors(py::module_& module);
void AddModel(py::module_& module);
void AddProfile(py::module_& module);
void AddHeads(py::module_& module);
void AddTrain(py::module_& module);
void AddAttention(py::module_& module);

}  // namespace headwise::python

// The module _headwise, which the package headwise is written on: calls of the
// public headers with plain arguments. People import headwise.
#include "binding.h"
#include "gil.h"
#include "headwise/version.h"

PYBIND11_MODULE(_headwise, module) {
  module.doc() = "The engine of the package headwise.";
  module.attr("version") = headwise::Version();
  headwise::python::AddEnding();
  headwise::python::AddErrors(module);
  headwise::python::AddTensors(module);
  headwise::python::AddModel(module);
  headwise::python::AddProfile(module);
  headwise::python::AddHeads(module);
  headwise::python::AddTrain(module);
  headwise::python::AddAttention(module);
}

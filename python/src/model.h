// A model as Python holds it: calls of several threads wait for each other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "binding.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/text_input.h"
#include "whole.h"
#include "work.h"

namespace headwise::python {

struct PyModel {
  explicit PyModel(const std::string& folder, const OpenOptions& options)
      : model(folder, options) {}

  bool is_mine() const { return user.load() == std::this_thread::get_id(); }

  Transformer model;
  std::timed_mutex busy = {};
  std::atomic<std::thread::id> user = {};
};

// The model is this thread's while it lives. Without the GIL: who has the model
// may be waiting for that. Throws Error(kInvalidArgument) for a call out of one
// of the model's own hooks.
class Hold {
 public:
  Hold(PyModel& model, Work& work);
  ~Hold();
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  PyModel& model_;
};

// What f gives of the model, without the GIL.
template <typename F>
auto Use(PyModel& model, Work& work, F&& f) {
  return work.Run([&] {
    const Hold hold(model, work);
    return f(model.model);
  });
}

// (kind, layer, head) of each.
inline py::list Tuples(const std::vector<HeadRef>& heads) {
  py::list list;
  for (const HeadRef& head : heads) {
    list.append(py::make_tuple(Name(head.kind), head.layer, head.head));
  }
  return list;
}

// "5.1", "cross:2.3"
inline std::vector<HeadRef> HeadsNamed(const std::vector<std::string>& names,
                                       const Transformer& model) {
  std::vector<HeadRef> heads;
  for (const std::string& name : names) {
    for (const HeadRef& head : ParseHeads(name, model)) heads.push_back(head);
  }
  return heads;
}

}  // namespace headwise::python

namespace pybind11::detail {
template <>
struct type_caster<headwise::python::PyModel>
    : headwise::python::WholeCaster<headwise::python::PyModel> {};
template <>
struct type_caster<headwise::TextInput>
    : headwise::python::WholeCaster<headwise::TextInput> {};
template <>
struct type_caster<headwise::Profile>
    : headwise::python::WholeCaster<headwise::Profile> {};
}  // namespace pybind11::detail

// Jobs from Python's keyword arguments, by the fields that they list
// (VisitFields). A new field of a job is a keyword of its function, with type,
// default, range and help, without a line here. _jobs.py shows the list and
// hands keywords on.
#pragma once

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binding.h"
#include "headwise/device.h"
#include "headwise/fields.h"
#include "headwise/model.h"
#include "headwise/tensor.h"
#include "work.h"

namespace headwise::python {

// How a field's value crosses: enums as words, None as it was. From throws
// py::cast_error.
template <typename T>
struct Value {
  static constexpr bool is_list = false, is_optional = false;
  static constexpr bool is_path = std::same_as<T, std::filesystem::path>;
  static constexpr const char* type = std::same_as<T, bool>    ? "bool"
                                      : std::integral<T>       ? "int"
                                      : std::floating_point<T> ? "float"
                                      : is_path                ? "path"
                                                               : "str";

  static std::vector<std::string> Words() {
    std::vector<std::string> all;
    if constexpr (requires { FieldWords(T{}); }) {
      for (const char* word : FieldWords(T{})) all.emplace_back(word);
    }
    return all;
  }
  static T From(py::handle value) {
    if constexpr (std::same_as<T, Device>) {
      return ParseDevice(value.cast<std::string>());
    } else if constexpr (std::same_as<T, DType>) {
      return ParseType(value.cast<std::string>());
    } else if constexpr (requires { FieldWords(T{}); }) {
      const bool truth = PyBool_Check(value.ptr());
      const auto word = truth ? (value.is(py::handle(Py_True)) ? "yes" : "no")
                              : value.cast<std::string>();
      const auto words = FieldWords(T{});
      const auto found = std::ranges::find(words, word);
      if (found == words.end()) throw py::cast_error(word);
      return static_cast<T>(found - words.begin());
    } else if constexpr (is_path) {
      return value.cast<std::string>();
    } else {
      return value.cast<T>();
    }
  }
  static py::object To(const T& value) {
    if constexpr (std::same_as<T, Device>) {
      return py::str(ToString(value));
    } else if constexpr (std::same_as<T, DType>) {
      return py::str(Name(value));
    } else if constexpr (requires { FieldWords(T{}); }) {
      return py::str(FieldWords(value)[static_cast<size_t>(value)]);
    } else if constexpr (is_path) {
      return py::str(value.string());
    } else {
      return py::cast(value);
    }
  }
  static bool Holds(const FieldRange& range, const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return range.Holds(static_cast<double>(value));
    }
    return true;
  }
};

template <typename T>
struct Value<std::optional<T>> : Value<T> {
  static constexpr bool is_optional = true;
  static std::optional<T> From(py::handle value) {
    return Value<T>::From(value);
  }
  static py::object To(const std::optional<T>& value) {
    return value ? Value<T>::To(*value) : py::none();
  }
  static bool Holds(const FieldRange& range, const std::optional<T>& value) {
    return !value || Value<T>::Holds(range, *value);
  }
};

template <typename T>
struct Value<std::vector<T>> : Value<T> {
  static constexpr bool is_list = true;
  static std::vector<std::string> Words() {
    std::vector<std::string> all = Value<T>::Words();
    if constexpr (requires { FieldGroups(T{}); }) {
      for (const auto& group : FieldGroups(T{})) all.emplace_back(group.word);
    }
    return all;
  }
  static std::vector<T> From(py::handle values) {
    std::vector<T> all;
    for (const py::handle value : values) {
      if (!AddGroup(value, all)) all.push_back(Value<T>::From(value));
    }
    return all;
  }
  static py::object To(const std::vector<T>& values) {
    py::list all;
    for (const T& value : values) all.append(Value<T>::To(value));
    return py::tuple(all);
  }
  static bool Holds(const FieldRange& range, const std::vector<T>& values) {
    return std::ranges::all_of(
        values, [&](const T& one) { return Value<T>::Holds(range, one); });
  }

 private:
  // Of a word that stands for several values.
  static bool AddGroup(py::handle word, std::vector<T>& all) {
    if constexpr (requires { FieldGroups(T{}); }) {
      for (const auto& group : FieldGroups(T{})) {
        if (!word.equal(py::str(group.word))) continue;
        all.insert(all.end(), group.values.begin(), group.values.end());
        return true;
      }
    }
    return false;
  }
};

// "all or core", "from 0 to 1"; "": any.
std::string BoundsText(const std::vector<std::string>& words,
                       const FieldRange& range);

// Throws, in the words of Error, ValueError where another value of this type
// would do, else TypeError.
[[noreturn]] void FailValue(const std::string& where, const char* name,
                            const std::string& type, const std::string& bounds,
                            const py::object& found);

// Sets the fields that are given and takes them out of `given`.
template <typename Job>
void Fill(const char* function, py::dict& given, Job& job) {
  Job::VisitFields(job, [&](const char* name, auto& field, const char*,
                            const FieldRange& range = {}) {
    using V = Value<std::remove_cvref_t<decltype(field)>>;
    if (!given.contains(name)) return;
    const py::object value = given.attr("pop")(name);
    try {
      field = V::From(value);
      if (V::Holds(range, field)) return;
    } catch (const py::cast_error&) {
    }
    FailValue(function, name, V::type, BoundsText(V::Words(), range), value);
  });
}

// A keyword for _jobs.py.
void Add(py::list all, const char* name, const char* help, const char* type,
         py::object value, const std::string& bounds = "",
         const std::vector<std::string>& words = {}, bool is_list = false,
         bool is_optional = false);
void ListProgress(py::list all);

// The fields of a job.
template <typename Job>
void List(py::list all) {
  const Job job = {};
  Job::VisitFields(job, [&](const char* name, const auto& field,
                            const char* help, const FieldRange& range = {}) {
    using V = Value<std::remove_cvref_t<decltype(field)>>;
    Add(all, name, help, V::type, V::To(field), BoundsText(V::Words(), range),
        V::Words(), V::is_list, V::is_optional);
  });
}

template <typename Job>
concept TellsProgress = requires(Job job) {
  job.on_progress;
};

// A function that ends in `const py::kwargs&`, which are fields of these jobs
// and progress, and `job_fields[name]`, which lists them.
template <typename... Jobs, typename F>
void Define(py::module_& module, const char* name, F&& function) {
  module.def(name, std::forward<F>(function));
  py::list all;
  (List<Jobs>(all), ...);
  if constexpr ((TellsProgress<Jobs> || ...)) ListProgress(all);
  if (!py::hasattr(module, "job_fields")) {
    module.attr("job_fields") = py::dict();
  }
  module.attr("job_fields")[name] = all;
}

// One call of such a function. Besides fields it takes progress, as Work does.
template <typename Job>
class Call {
 public:
  // more: other jobs whose fields are keywords too.
  template <typename... More>
  Call(const char* function, py::dict given, More&... more)
      : work(given.attr("pop")("progress", py::none())) {
    if constexpr (TellsProgress<Job>) job.on_progress = work.on_progress();
    if constexpr (requires { job.stop; }) job.stop = work.stop();
    Fill(function, given, job);
    (Fill(function, given, more), ...);
    if (py::len(given) > 0) throw py::type_error(py::repr(given));
  }

  Work work;
  Job job = {};
};

}  // namespace headwise::python

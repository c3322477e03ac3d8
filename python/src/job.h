// Jobs from Python's keyword arguments, by the fields that they list
// (VisitFields). A new field of a job is a keyword of its function, with type,
// default, range and help, without a line here. _jobs.py reads the list, checks
// what people give and hands on plain values.
#pragma once

#include <algorithm>
#include <cmath>
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
#include "headwise/error.h"
#include "headwise/fields.h"
#include "headwise/model.h"
#include "headwise/tensor.h"
#include "work.h"

namespace headwise::python {

// A value both ways; words are str.
template <typename T>
struct Value {
  static constexpr bool is_path = std::same_as<T, std::filesystem::path>;
  static constexpr bool is_word = std::is_enum_v<T> && !std::same_as<T, DType>;
  static constexpr const char* type = std::same_as<T, bool>    ? "bool"
                                      : std::integral<T>       ? "int"
                                      : std::floating_point<T> ? "float"
                                      : is_path                ? "path"
                                                               : "str";
  static constexpr bool is_list = false, is_optional = false;
  using Word = std::conditional_t<is_word, T, void>;

  static T From(py::handle value) {
    if constexpr (std::same_as<T, Device>) {
      return ParseDevice(value.cast<std::string>());
    } else if constexpr (std::same_as<T, DType>) {
      return ParseType(value.cast<std::string>());
    } else if constexpr (is_word) {
      const auto words = FieldWords(T{});
      const auto word = value.cast<std::string>();
      return static_cast<T>(std::ranges::find(words, word) - words.begin());
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
    } else if constexpr (is_word) {
      return py::str(FieldWords(value)[static_cast<size_t>(value)]);
    } else if constexpr (is_path) {
      return py::str(value.string());
    } else {
      return py::cast(value);
    }
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
};

template <typename T>
struct Value<std::vector<T>> : Value<T> {
  static constexpr bool is_list = true;
  // A word may stand for several values.
  static void Add(py::handle value, std::vector<T>& all) {
    if constexpr (requires { FieldGroups(T{}); }) {
      for (const auto& group : FieldGroups(T{})) {
        if (value.cast<std::string>() != group.word) continue;
        all.insert(all.end(), group.values.begin(), group.values.end());
        return;
      }
    }
    all.push_back(Value<T>::From(value));
  }
  static std::vector<T> From(py::handle values) {
    std::vector<T> all;
    for (const py::handle value : values) Add(value, all);
    return all;
  }
  static py::object To(const std::vector<T>& values) {
    py::list all;
    for (const T& value : values) all.append(Value<T>::To(value));
    return py::tuple(all);
  }
};

// The words of an enum, groups last; none of other types.
template <typename T>
std::vector<std::string> WordsOf() {
  std::vector<std::string> all;
  if constexpr (!std::is_void_v<T>) {
    for (const char* word : FieldWords(T{})) all.push_back(word);
    if constexpr (requires { FieldGroups(T{}); }) {
      for (const auto& group : FieldGroups(T{})) all.push_back(group.word);
    }
  }
  return all;
}

// Sets the fields that are given and takes them out of `given`.
template <typename Job>
void Fill(const char* function, py::dict& given, Job& job) {
  Job::VisitFields(job, [&](const char* name, auto& field, const char*,
                            const FieldRange& = {}) {
    if (!given.contains(name)) return;
    const py::object value = given.attr("pop")(name);
    try {
      field = Value<std::remove_cvref_t<decltype(field)>>::From(value);
    } catch (const py::cast_error&) {
      throw Error(ErrorCode::kInvalidArgument,
                  {function, std::string(name) + " in the engine's type",
                   py::repr(value), ""});
    }
  });
}

// None: any finite number.
inline py::object BoundOf(double bound) {
  constexpr FieldRange kAny;
  const bool any = bound <= kAny.least || bound >= kAny.most;
  return any ? py::none() : py::object(py::float_(bound));
}

// The fields of a job for _jobs.py.
template <typename Job>
void List(py::list all) {
  const Job job = {};
  Job::VisitFields(job, [&](const char* name, const auto& field,
                            const char* help, const FieldRange& range = {}) {
    using V = Value<std::remove_cvref_t<decltype(field)>>;
    py::dict one;
    one["name"] = name;
    one["help"] = help;
    one["type"] = V::type;
    one["list"] = V::is_list;
    one["optional"] = V::is_optional;
    one["words"] = WordsOf<typename V::Word>();
    one["default"] = V::To(field);
    one["least"] = BoundOf(range.least);
    one["most"] = BoundOf(range.most);
    one["above"] = range.above;
    all.append(one);
  });
}

// A function that ends in `const py::kwargs&`, which are fields of these jobs,
// and `job_fields[name]`, which lists them.
template <typename... Jobs, typename F>
void Define(py::module_& module, const char* name, F&& function) {
  module.def(name, std::forward<F>(function));
  py::list all;
  (List<Jobs>(all), ...);
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
    if constexpr (requires { job.on_progress; }) {
      job.on_progress = work.on_progress();
    }
    if constexpr (requires { job.stop; }) job.stop = work.stop();
    Fill(function, given, job);
    (Fill(function, given, more), ...);
    if (py::len(given) > 0) throw py::type_error(py::repr(given));
  }

  Work work;
  Job job = {};
};

}  // namespace headwise::python

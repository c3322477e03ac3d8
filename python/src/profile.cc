// Profiles. Door: include/headwise/profile.h.
#include "headwise/profile.h"

#include "headwise/error.h"
#include "job.h"
#include "model.h"

namespace headwise::python {
namespace {

using ProfilePointer = std::shared_ptr<Profile>;

ProfilePointer Make(PyModel& model, TextInput& text, const py::kwargs& given) {
  Call<ProfileJob> call("profile", given, text);
  return Use(model, call.work, [&](Transformer& of) {
    return std::make_shared<Profile>(MakeProfile(of, text, call.job));
  });
}

ProfilePointer Merge(const std::vector<ProfilePointer>& parts) {
  Work work;
  std::vector<Profile> all;
  for (const ProfilePointer& part : parts) {
    if (part == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"profiles", "profiles", "None", ""});
    }
    all.push_back(*part);
  }
  return work.Run(
      [&] { return std::make_shared<Profile>(MergeProfiles(all)); });
}

// (mean, low, high, count, sequences) of every head.
py::list Estimates(const Profile& profile, const std::string& metric) {
  MetricMeans(profile, metric);  // throws for what it does not have
  py::list list;
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    const Estimate one = profile.Get(metric, h);
    list.append(
        py::make_tuple(one.mean, one.low, one.high, one.count, one.sequences));
  }
  return list;
}

py::list ExamplesOf(const Profile& profile, size_t head) {
  py::list list;
  if (head >= profile.examples.size()) return list;
  for (const Example& example : profile.examples[head]) {
    py::list keys;
    for (const Example::Key& key : example.keys) {
      keys.append(py::make_tuple(key.position, key.token, key.mass));
    }
    list.append(py::dict("kind"_a = example.kind, "score"_a = example.score,
                         "query"_a = example.query, "first"_a = example.first,
                         "tokens"_a = example.tokens, "keys"_a = keys));
  }
  return list;
}

py::dict Counts(const Profile& profile) {
  return py::dict("documents"_a = profile.counts.documents,
                  "windows"_a = profile.counts.windows,
                  "tokens"_a = profile.counts.tokens);
}

std::vector<std::string> Metrics(const Profile& profile) {
  std::vector<std::string> names;
  for (const auto& [name, tallies] : profile.metrics) names.push_back(name);
  return names;
}

}  // namespace

void AddProfile(py::module_& module) {
  py::class_<Profile, ProfilePointer>(module, "Profile")
      .def_static("load",
                  [](const std::string& path) {
                    return std::make_shared<Profile>(Profile::Load(path));
                  })
      .def("save", [](const Profile& profile,
                      const std::string& path) { profile.Save(path); })
      .def_readonly("model", &Profile::model)
      .def_readonly("model_hash", &Profile::model_hash)
      .def_property_readonly(
          "heads", [](const Profile& profile) { return Tuples(profile.heads); })
      .def_property_readonly("metrics", &Metrics)
      .def_property_readonly("counts", &Counts)
      .def_readonly("histograms", &Profile::histograms)
      .def_readonly("sinks", &Profile::sinks)
      .def("means", &MetricMeans)
      .def("estimates", &Estimates)
      .def("examples", &ExamplesOf)
      .def("json", [](const Profile& profile) { return JsonText(profile); });
  Define<ProfileJob, TextInput>(module, "profile", &Make);
  module.def("merge_profiles", &Merge);
}

}  // namespace headwise::python

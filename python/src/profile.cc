// Profiles. Door: include/headwise/profile.h.
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/profile.h"
#include "headwise/text_input.h"
#include "model.h"

namespace pybind11::detail {
template <>
struct type_caster<headwise::ProfileJob>
    : headwise::python::WholeCaster<headwise::ProfileJob> {};
}  // namespace pybind11::detail

namespace headwise::python {
namespace {

using ProfilePointer = std::shared_ptr<Profile>;

ProfilePointer Make(PyModel& model, const TextInput& text, ProfileJob job,
                    const Profile* resume, const py::object& on_checkpoint,
                    const py::object& progress) {
  Work work(progress);
  job.resume = resume;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  if (!on_checkpoint.is_none()) {
    job.on_checkpoint = [&](const Profile& so_far) {
      work.Call([&] { on_checkpoint(std::make_shared<Profile>(so_far)); },
                Work::When::kAlways);
    };
  }
  return Use(model, work, [&](Transformer& of) {
    return std::make_shared<Profile>(MakeProfile(of, text, job));
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
    py::dict one;
    one["kind"] = example.kind;
    one["score"] = example.score;
    one["query"] = example.query;
    one["first"] = example.first;
    one["tokens"] = example.tokens;
    one["keys"] = keys;
    list.append(one);
  }
  return list;
}

py::dict Counts(const Profile& profile) {
  py::dict dict;
  dict["documents"] = profile.counts.documents;
  dict["windows"] = profile.counts.windows;
  dict["tokens"] = profile.counts.tokens;
  return dict;
}

py::list Heads(const Profile& profile) {
  py::list list;
  for (const HeadRef& head : profile.heads) {
    list.append(py::make_tuple(Name(head.kind), head.layer, head.head));
  }
  return list;
}

std::vector<std::string> Metrics(const Profile& profile) {
  std::vector<std::string> names;
  for (const auto& [name, tallies] : profile.metrics) names.push_back(name);
  return names;
}

}  // namespace

void AddProfile(py::module_& module) {
  py::class_<ProfileJob>(module, "ProfileJob")
      .def(py::init())
      .def_property(
          "core",
          [](const ProfileJob& job) { return job.metrics == MetricSet::kCore; },
          [](ProfileJob& job, bool core) {
            job.metrics = core ? MetricSet::kCore : MetricSet::kAll;
          })
      .def_readwrite("min_visible", &ProfileJob::min_visible)
      .def_readwrite("repeats", &ProfileJob::repeats)
      .def_readwrite("sentences", &ProfileJob::sentences)
      .def_readwrite("words", &ProfileJob::words)
      .def_property(
          "patterns", [](const ProfileJob& job) { return job.patterns.size(); },
          [](ProfileJob& job, const std::vector<std::string>& paths) {
            job.patterns.assign(paths.begin(), paths.end());
          })
      .def_readwrite("checkpoint_seconds", &ProfileJob::checkpoint_seconds);
  py::class_<Profile, ProfilePointer>(module, "Profile")
      .def_static("load",
                  [](const std::string& path) {
                    return std::make_shared<Profile>(Profile::Load(path));
                  })
      .def("save", [](const Profile& profile,
                      const std::string& path) { profile.Save(path); })
      .def_readonly("model", &Profile::model)
      .def_readonly("model_hash", &Profile::model_hash)
      .def_property_readonly("heads", &Heads)
      .def_property_readonly("metrics", &Metrics)
      .def_property_readonly("counts", &Counts)
      .def_property_readonly(
          "context",
          [](const Profile& profile) { return profile.settings.context; })
      .def_readonly("histograms", &Profile::histograms)
      .def_readonly("sinks", &Profile::sinks)
      .def("means",
           [](const Profile& profile, const std::string& metric) {
             return MetricMeans(profile, metric);
           })
      .def("estimates", &Estimates)
      .def("examples", &ExamplesOf)
      .def("json", [](const Profile& profile) { return JsonText(profile); });
  module.def("make_profile", &Make);
  module.def("merge_profiles", &Merge);
}

}  // namespace headwise::python

// What is found out about heads, and pictures of it. Doors:
// include/headwise/roles.h, rank.h, patch.h, similar.h, compose.h, show.h,
// report.h. Large results cross as the JSON that the
// commands print.
#include "headwise/compose.h"
#include "headwise/error.h"
#include "headwise/head_weights.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/patch.h"
#include "headwise/profile.h"
#include "headwise/rank.h"
#include "headwise/report.h"
#include "headwise/roles.h"
#include "headwise/show.h"
#include "headwise/similar.h"
#include "headwise/text_input.h"
#include "model.h"
#include "tensor.h"
#include "words.h"

namespace headwise::python {
namespace {

// model: whose heads are switched off to confirm roles, or null.
std::string Roles(const Profile& profile, PyModel* model,
                  const std::vector<std::string>& thresholds,
                  const std::string& repeats, bool words,
                  const py::object& progress) {
  Work work(progress);
  std::vector<HeadRoles> roles = FindRoles(
      profile,
      {thresholds, FromWords<RepeatForm>({repeats}, "repeats")[0], words});
  if (model != nullptr) {
    ConfirmJob job;
    job.on_progress = work.on_progress();
    job.stop = work.stop();
    Use(*model, work, [&](Transformer& of) {
      ConfirmRoles(of, roles, job);
      return true;
    });
  }
  return JsonText(profile, roles);
}

std::string Rank(PyModel& model, const TextInput& text,
                 const std::vector<std::string>& by, bool pairs,
                 bool self_repair, bool per_layer, const Profile* profile,
                 uint64_t seed, const py::object& progress) {
  Work work(progress);
  RankJob job;
  if (!by.empty()) job.by = FromWords<Criterion>(by, "by");
  job.pairs = pairs;
  job.self_repair = self_repair;
  job.per_layer = per_layer;
  job.profile = profile;
  job.seed = seed;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  return Use(model, work, [&](Transformer& of) {
    return JsonText(RankHeads(of, text, job));
  });
}

py::tuple Triple(const Interval& interval) {
  return py::make_tuple(interval.value, interval.low, interval.high);
}

py::dict ToDict(const PatchResult& result) {
  py::list patched;
  for (const Interval& one : result.patched) patched.append(Triple(one));
  py::dict dict;
  dict["cases"] = result.cases;
  dict["difference"] = Triple(result.difference);
  dict["counterfactual"] = Triple(result.counterfactual);
  dict["preferred"] = result.preferred;
  dict["heads"] = result.direct.heads;
  dict["mlps"] = result.direct.mlps;
  dict["biases"] = result.direct.biases;
  dict["embedding"] = result.direct.embedding;
  dict["constant"] = result.direct.constant;
  dict["sum"] = result.direct.Sum();
  dict["patched"] = patched;
  dict["share"] = result.share;
  return dict;
}

// cases: (prompt, counterfactual, answer, other), each texts or each ids.
py::dict Patch(PyModel& model, const std::vector<py::tuple>& cases,
               uint64_t seed, const py::object& progress) {
  Work work(progress);
  PatchJob job;
  job.seed = seed;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  if (!cases.empty() && py::isinstance<py::str>(cases[0][0])) {
    std::vector<PatchText> texts;
    for (const py::tuple& one : cases) {
      texts.push_back({one[0].cast<std::string>(), one[1].cast<std::string>(),
                       one[2].cast<std::string>(), one[3].cast<std::string>()});
    }
    return ToDict(Use(model, work, [&](Transformer& of) {
      return PatchHeads(of, texts, job);
    }));
  }
  std::vector<PatchCase> ids;
  for (const py::tuple& one : cases) {
    ids.push_back({one[0].cast<std::vector<int32_t>>(),
                   one[1].cast<std::vector<int32_t>>(), one[2].cast<int32_t>(),
                   one[3].cast<int32_t>()});
  }
  return ToDict(Use(model, work,
                    [&](Transformer& of) { return PatchHeads(of, ids, job); }));
}

SimilarityJob JobOf(Work& work, int64_t rows, int64_t samples, double twin,
                    double cut) {
  SimilarityJob job;
  job.rows = rows;
  job.samples = samples;
  job.twin = twin;
  job.cut = cut;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  return job;
}

py::dict Similar(PyModel& model, const TextInput& text, int64_t rows,
                 int64_t samples, double twin, double cut,
                 const py::object& progress) {
  Work work(progress);
  const SimilarityJob job = JobOf(work, rows, samples, twin, cut);
  HeadSimilarity found = Use(model, work, [&](Transformer& of) {
    return CompareHeads(of, text, job);
  });
  py::dict dict;
  dict["json"] = found.json;
  dict["bhattacharyya"] = ToNumpy(std::move(found.bhattacharyya));
  dict["jsd"] = ToNumpy(std::move(found.jsd));
  dict["cka"] = ToNumpy(std::move(found.cka));
  dict["ov_read"] = ToNumpy(std::move(found.ov_read));
  dict["ov_write"] = ToNumpy(std::move(found.ov_write));
  dict["map"] = ToNumpy(std::move(found.map));
  dict["group"] = found.group;
  dict["order"] = found.order;
  return dict;
}

std::string SimilarSvg(PyModel& model, const TextInput& text, int64_t rows,
                       int64_t samples, double twin, double cut,
                       const py::object& progress) {
  Work work(progress);
  const SimilarityJob job = JobOf(work, rows, samples, twin, cut);
  return Use(model, work,
             [&](Transformer& of) { return DrawSimilarity(of, text, job); });
}

// (json, svg) of the first `top` edges.
py::tuple Compose(PyModel& model, const TextInput* text, bool by_effect,
                  size_t top, const py::object& progress) {
  Work work(progress);
  CompositionJob job;
  job.by = by_effect ? EdgeOrder::kEffect : EdgeOrder::kWeights;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  const auto [json, svg] = Use(model, work, [&](Transformer& of) {
    const Composition found =
        text == nullptr ? ComposeHeads(of, job) : ComposeHeads(of, *text, job);
    return std::pair(JsonText(found),
                     DrawComposition(found, top, of.info().name));
  });
  return py::make_tuple(json, svg);
}

std::string Draw(PyModel& model, const std::string& text,
                 const std::vector<std::string>& heads, int64_t cells,
                 const std::string& target) {
  Work work;
  DrawJob job;
  job.cells = cells;
  job.target = target;
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  return Use(model, work, [&](Transformer& of) {
    return DrawAttention(of, text, HeadsNamed(heads, of), job);
  });
}

py::tuple ReportOf(PyModel& model, const TextInput& text,
                   const std::string& profile, int64_t rank_tokens,
                   const std::vector<std::string>& skip,
                   const py::object& progress) {
  Work work(progress);
  ReportJob job;
  if (!profile.empty()) job.profile = profile;
  job.rank_tokens = rank_tokens;
  job.skip = FromWords<ReportPart>(skip, "skip");
  job.on_progress = work.on_progress();
  job.stop = work.stop();
  const Report report = Use(
      model, work, [&](Transformer& of) { return MakeReport(of, text, job); });
  return py::make_tuple(report.html, report.json);
}

py::dict Weights(PyModel& model, const std::string& head) {
  Work work;
  HeadMatrices found = Use(model, work, [&](Transformer& of) {
    return WeightsOfHead(of, HeadsNamed({head}, of).at(0));
  });
  py::dict dict;
  dict["W_Q"] = ToNumpy(std::move(found.q));
  dict["W_K"] = ToNumpy(std::move(found.k));
  dict["W_V"] = ToNumpy(std::move(found.v));
  dict["W_O"] = ToNumpy(std::move(found.o));
  dict["QK"] = ToNumpy(std::move(found.qk));
  dict["OV"] = ToNumpy(std::move(found.ov));
  return dict;
}

}  // namespace

void AddHeads(py::module_& module) {
  module.def("roles", &Roles);
  module.def("rank", &Rank);
  module.def("patch", &Patch);
  module.def("similar", &Similar);
  module.def("similar_svg", &SimilarSvg);
  module.def("compose", &Compose);
  module.def("draw", &Draw);
  module.def("report", &ReportOf);
  module.def("head_weights", &Weights);
}

}  // namespace headwise::python

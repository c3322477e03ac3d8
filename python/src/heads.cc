// What is found out about heads, and pictures of it. Large results cross as the
// JSON that the commands print.
#include <memory>

#include "headwise/atlas.h"
#include "headwise/compose.h"
#include "headwise/head_weights.h"
#include "headwise/patch.h"
#include "headwise/rank.h"
#include "headwise/report.h"
#include "headwise/roles.h"
#include "headwise/show.h"
#include "headwise/similar.h"
#include "job.h"
#include "model.h"
#include "tensor.h"

namespace headwise::python {
namespace {

// model: whose heads are switched off to confirm roles, or null.
std::string Roles(const Profile& profile, PyModel* model,
                  const py::kwargs& given) {
  RoleJob job;
  Call<ConfirmJob> call("roles", given, job);
  std::vector<HeadRoles> roles = FindRoles(profile, job);
  if (model != nullptr) {
    Use(*model, call.work, [&](Transformer& of) {
      ConfirmRoles(of, roles, call.job);
      return true;
    });
  }
  return JsonText(profile, roles);
}

std::string Rank(PyModel& model, TextInput& text, const Profile* profile,
                 const py::kwargs& given) {
  Call<RankJob> call("rank", given, text);
  call.job.profile = profile;
  return Use(model, call.work, [&](Transformer& of) {
    return JsonText(RankHeads(of, text, call.job));
  });
}

py::tuple Triple(const Interval& interval) {
  return py::make_tuple(interval.value, interval.low, interval.high);
}

py::dict ToDict(const PatchResult& result) {
  py::list patched;
  for (const Interval& one : result.patched) patched.append(Triple(one));
  return py::dict(
      "cases"_a = result.cases, "difference"_a = Triple(result.difference),
      "counterfactual"_a = Triple(result.counterfactual),
      "preferred"_a = result.preferred, "heads"_a = result.direct.heads,
      "mlps"_a = result.direct.mlps, "biases"_a = result.direct.biases,
      "embedding"_a = result.direct.embedding,
      "constant"_a = result.direct.constant, "sum"_a = result.direct.Sum(),
      "patched"_a = patched, "share"_a = result.share);
}

// PatchText or PatchCase: (prompt, counterfactual, answer, other).
template <typename Case>
std::vector<Case> CasesOf(const std::vector<py::tuple>& cases) {
  std::vector<Case> all;
  for (const py::tuple& one : cases) {
    Case& made = all.emplace_back();
    made.prompt = one[0].cast<decltype(made.prompt)>();
    made.counterfactual = one[1].cast<decltype(made.counterfactual)>();
    made.answer = one[2].cast<decltype(made.answer)>();
    made.other = one[3].cast<decltype(made.other)>();
  }
  return all;
}

// Each texts or each ids.
py::dict Patch(PyModel& model, const std::vector<py::tuple>& cases,
               const py::kwargs& given) {
  Call<PatchJob> call("patch", given);
  const auto patch = [&](const auto& all) {
    return ToDict(Use(model, call.work, [&](Transformer& of) {
      return PatchHeads(of, all, call.job);
    }));
  };
  const bool texts = !cases.empty() && py::isinstance<py::str>(cases[0][0]);
  return texts ? patch(CasesOf<PatchText>(cases))
               : patch(CasesOf<PatchCase>(cases));
}

py::dict Similar(PyModel& model, TextInput& text, const py::kwargs& given) {
  Call<SimilarityJob> call("similar", given, text);
  const auto found = std::make_shared<HeadSimilarity>(
      Use(model, call.work,
          [&](Transformer& of) { return CompareHeads(of, text, call.job); }));
  const auto shared = [&](Tensor& matrix) {
    return ToNumpy(std::shared_ptr<Tensor>(found, &matrix));
  };
  const py::cpp_function draw(
      [found, title = "Like heads of " + model.model.info().name] {
        Work work;
        return work.Run([&] { return DrawSimilarity(*found, title); });
      });
  return py::dict(
      "json"_a = found->json, "bhattacharyya"_a = shared(found->bhattacharyya),
      "jsd"_a = shared(found->jsd), "cka"_a = shared(found->cka),
      "ov_read"_a = shared(found->ov_read),
      "ov_write"_a = shared(found->ov_write), "map"_a = shared(found->map),
      "group"_a = found->group, "order"_a = found->order, "draw"_a = draw);
}

// (json, svg) of the first `top` edges.
py::tuple Compose(PyModel& model, TextInput* text, size_t top,
                  const py::kwargs& given) {
  TextInput none;
  Call<CompositionJob> call("compose", given, text == nullptr ? none : *text);
  const auto [json, svg] = Use(model, call.work, [&](Transformer& of) {
    const Composition found = text == nullptr
                                  ? ComposeHeads(of, call.job)
                                  : ComposeHeads(of, *text, call.job);
    return std::pair(JsonText(found),
                     DrawComposition(found, top, of.info().name));
  });
  return py::make_tuple(json, svg);
}

std::string Show(PyModel& model, const std::string& text,
                 const std::vector<std::string>& heads,
                 const py::kwargs& given) {
  Call<DrawJob> call("show", given);
  return Use(model, call.work, [&](Transformer& of) {
    return DrawAttention(of, text, HeadsNamed(heads, of), call.job);
  });
}

py::tuple ReportOf(PyModel& model, TextInput& text, const py::kwargs& given) {
  Call<ReportJob> call("report", given, text);
  const Report report = Use(model, call.work, [&](Transformer& of) {
    return MakeReport(of, text, call.job);
  });
  return py::make_tuple(report.html, report.json);
}

std::string AtlasOf(PyModel& model, TextInput& text, const std::string& folder,
                    const py::kwargs& given) {
  Call<AtlasJob> call("atlas", given, text);
  return Use(model, call.work, [&](Transformer& of) {
    return JsonText(MakeAtlas(of, text, folder, call.job));
  });
}

// As HeadWeights of _results.py names them.
py::tuple Weights(PyModel& model, const std::string& head) {
  Work work;
  HeadMatrices found = Use(model, work, [&](Transformer& of) {
    return WeightsOfHead(of, HeadsNamed({head}, of).at(0));
  });
  return py::make_tuple(
      ToNumpy(std::move(found.q)), ToNumpy(std::move(found.k)),
      ToNumpy(std::move(found.v)), ToNumpy(std::move(found.o)),
      ToNumpy(std::move(found.qk)), ToNumpy(std::move(found.ov)));
}

}  // namespace

void AddHeads(py::module_& module) {
  Define<RoleJob, ConfirmJob>(module, "roles", &Roles);
  Define<RankJob, TextInput>(module, "rank", &Rank);
  Define<PatchJob>(module, "patch", &Patch);
  Define<SimilarityJob, TextInput>(module, "similar", &Similar);
  Define<CompositionJob, TextInput>(module, "compose", &Compose);
  Define<DrawJob>(module, "show", &Show);
  Define<ReportJob, TextInput>(module, "report", &ReportOf);
  Define<AtlasJob, TextInput>(module, "atlas", &AtlasOf);
  module.def("head_weights", &Weights);
}

}  // namespace headwise::python

// The layers of a model from disk. Door: layers.h.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "headwise/heads/importance/examples.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/study/layers.h"
#include "headwise/study/support/shipped.h"

namespace headwise {
namespace {

constexpr int64_t kShippedRepeats = 16;  // sequences of random repeats
constexpr int64_t kThirds = 3;
constexpr const char* kThirdNames[kThirds] = {"early", "middle", "late"};

// The layers that a third ends before.
int64_t EndOf(int64_t third, int64_t layers) {
  return (third + 1) * layers / kThirds;
}

StudyTable RolesByThird(const Profile& profile, int64_t layers) {
  StudyTable table{"The shipped model: roles by layer third",
                   {"third", "layers", "heads", "with a role", "roles"},
                   {}};
  const std::vector<HeadRoles> heads = AssignRoles(profile);
  for (int64_t third = 0; third < kThirds; ++third) {
    const int64_t begin = third == 0 ? 0 : EndOf(third - 1, layers);
    const int64_t end = EndOf(third, layers);
    std::map<std::string, int> roles;
    int all = 0, with = 0;
    for (const HeadRoles& head : heads) {
      if (head.head.layer < begin || head.head.layer >= end) continue;
      ++all;
      if (head.roles.empty()) continue;
      ++with;
      ++roles[head.roles[0].name];
    }
    std::vector<std::string> told;
    for (const auto& [name, count] : roles) {
      told.push_back(fmt::format("{} × {}", count, name));
    }
    table.rows.push_back({kThirdNames[third],
                          fmt::format("{}–{}", begin, end - 1),
                          std::to_string(all), std::to_string(with),
                          fmt::format("{}", fmt::join(told, ", "))});
  }
  return table;
}

// What can be read off after so many layers: the text, and random repeats.
void TellReadings(Context& context, const TrainedReader& reader,
                  StudyResult& result) {
  const std::vector<MadeSequence> texts = reader.Text();
  const std::vector<MadeSequence> repeats =
      reader.Repeats(RepeatTask::kOneToken, kShippedRepeats);
  Series text{"next token of the text", {}, {}};
  Series repeated{"next token of random repeats", {}, {}};
  for (int64_t layers = 0; layers <= reader.layers(); ++layers) {
    for (Series* series : {&text, &repeated}) {
      series->x.push_back(static_cast<double>(layers));
    }
    text.y.push_back(ShareRight(context, reader.model(), texts, layers));
    repeated.y.push_back(ShareRight(context, reader.model(), repeats, layers));
  }
  result.AtLeast("shipped: repeats told right: last layer − first third",
                 repeated.y.back() - repeated.y[EndOf(0, reader.layers())],
                 0.1);
  result.AtLeast("shipped: text told right: last layer − first third",
                 text.y.back() - text.y[EndOf(0, reader.layers())], 0.1);
  result.pictures.push_back(
      LinePlot{"The shipped model: what can be read off after so many layers",
               "layers",
               "share right",
               false,
               false,
               {std::move(text), std::move(repeated)}});
}

}  // namespace

void TellShippedLayers(Context& context, const StudyRequest& request,
                       StudyResult& result) {
  if (request.model.empty()) {
    result.remark += " The shipped model is not here.";
    return;
  }
  const TrainedReader reader(request.model, request.reading);
  const Profile profile = reader.MakeProfile(context);
  RankOptions options;
  options.replicates = 200;
  TellLayers(
      profile,
      RankHeads(context, reader.model(), ExamplesOf(reader.windows()), options),
      "The shipped model: heads by layer", result);
  result.tables.push_back(RolesByThird(profile, reader.layers()));
  result.AtLeast(
      "shipped: layers from the best previous-token to the best induction",
      LayersToInduction(profile), 1);
  TellReadings(context, reader, result);
  TellEdge(context, reader.model(), profile, "shipped: ", result);
  const std::vector<double> far = LayerMeans(profile, "distance");
  result.Report("shipped: mean distance, last layer − first",
                far.back() - far.front());
}

}  // namespace headwise

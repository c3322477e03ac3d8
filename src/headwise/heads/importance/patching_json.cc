// Door: patching_json.h.
#include "headwise/heads/importance/patching_json.h"

#include <utility>

#include "headwise/heads/importance/ranking_json.h"

namespace headwise {

Json ToJson(const PatchResult& result) {
  Json json = {{"format", "headwise.patch/1"},
               {"prompts", result.cases},
               {"left_out",
                {{"lengths_differ", result.unequal},
                 {"answers_begin_alike", result.ambiguous}}},
               {"preferred", result.preferred},
               {"difference", ToJson(result.difference)}};
  if (!result.patched.empty()) {
    json["counterfactual"] = ToJson(result.counterfactual);
  }
  Json heads = Json::array();
  for (size_t i = 0; i < result.heads.size(); ++i) {
    Json head = {{"layer", result.heads[i].layer},
                 {"head", result.heads[i].head},
                 {"kind", Name(result.heads[i].kind)},
                 {"direct", result.direct.heads[i]}};
    if (!result.patched.empty()) {
      head["patched"] = ToJson(result.patched[i]);
      head["share"] = result.share[i];
    }
    heads.push_back(std::move(head));
  }
  json["heads"] = std::move(heads);
  json["feed_forward"] = result.direct.mlps;
  json["output_biases"] = result.direct.biases;
  json["embedding"] = result.direct.embedding;
  json["constant"] = result.direct.constant;
  return json;
}

}  // namespace headwise

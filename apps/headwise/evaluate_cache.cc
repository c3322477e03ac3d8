// Texts read through caches by role. Door: evaluate_cache.h.
#include "evaluate_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "console.h"
#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/report/text.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int64_t kReplicates = 2000;
constexpr int64_t kRows = 256;  // of logits at once

// Sums over each sequence.
struct Sums {
  std::vector<double> loss, right;
};

double CountRight(Context& context, const Model& model, ConstTensorView x,
                  const std::vector<int32_t>& targets) {
  const int64_t classes = model.config().vocabulary;
  double right = 0;
  for (int64_t begin = 0; begin < x.shape[0]; begin += kRows) {
    const int64_t end = std::min(begin + kRows, x.shape[0]);
    Tensor logits(context, model.type(), {end - begin, classes});
    model.Logits(context, Slice(x, 0, begin, end), logits.view());
    const std::vector<float> all = ToVector<float>(context, logits.view());
    for (int64_t row = begin; row < end; ++row) {
      const auto of = all.begin() + (row - begin) * classes;
      if (targets[row] == kIgnoreTarget) continue;
      right += std::max_element(of, of + classes) - of == targets[row] ? 1 : 0;
    }
  }
  return right;
}

void Read(Context& context, const Model& model, const Objective& objective,
          const ExampleBatch& batch, Session& session, Sums& sums) {
  session.Clear();
  const Tensor states = session.FeedStates(batch.ids);
  const ConstTensorView x =
      Reshaped(states.view(), {states.shape(1), states.shape(2)});
  sums.loss.push_back(objective.Losses(context, batch, x, 1)[0]);
  sums.right.push_back(CountRight(context, model, x, batch.targets));
}

std::vector<double> Less(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

CacheEvaluation EvaluateCache(Context& context, const PruneMaterial& material,
                              const KvPolicy& policy,
                              const CorpusOptions& corpus) {
  const Model& model = material.model();
  if (!model.config().causal || model.config().encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"evaluate", "a causal model for a cache by role",
                 model.config().model_type, "generate takes encoder–decoders"});
  }
  const Objective objective(model, corpus.objective);
  int64_t longest = 1;
  for (const TextExample& example : material.examples) {
    longest = std::max<int64_t>(longest, std::ssize(example.ids));
  }
  Session whole(context, model, {.capacity = longest});
  Session cut(context, model, {.capacity = longest, .policy = &policy});
  CacheEvaluation result;
  Sums base, other;
  std::vector<double> weights;
  for (size_t i = 0; i < material.examples.size(); ++i) {
    ThrowIfStopped(corpus.stop, "evaluate");
    const ExampleBatch batch =
        objective.Prepare({&material.examples[i], 1}, static_cast<int64_t>(i));
    Read(context, model, objective, batch, whole, base);
    Read(context, model, objective, batch, cut, other);
    weights.push_back(batch.weights[0]);
    result.tokens += std::ssize(batch.ids);
    if (corpus.progress) {
      corpus.progress({"cache", static_cast<double>(i + 1),
                       static_cast<double>(material.examples.size()),
                       "sequences"});
    }
  }
  const PairedBootstrap bootstrap(weights, kReplicates, corpus.seed);
  result.sequences = std::ssize(weights);
  result.loss = bootstrap.Ratio(base.loss);
  result.cut = bootstrap.Ratio(other.loss);
  result.change = bootstrap.Ratio(Less(other.loss, base.loss));
  result.right = bootstrap.Ratio(base.right);
  result.cut_right = bootstrap.Ratio(other.right);
  result.change_right = bootstrap.Ratio(Less(other.right, base.right));
  result.bytes = cut.cache_bytes();
  return result;
}

void PrintEvaluation(const CacheEvaluation& result, const CacheChoice& choice,
                     const RunFlags& run, const std::string& model_hash) {
  if (run.json) {
    const Json json = {{"format", "headwise.evaluation/1"},
                       {"model", run.model},
                       {"loss_kind", Name(LossKind::kNextToken)},
                       {"sequences", result.sequences},
                       {"tokens", result.tokens},
                       {"loss", ToJson(result.loss)},
                       {"cut", ToJson(result.cut)},
                       {"change", ToJson(result.change)},
                       {"right",
                        {{"whole", ToJson(result.right)},
                         {"cut", ToJson(result.cut_right)},
                         {"change", ToJson(result.change_right)}}},
                       {"cache", ToJson(choice, result.bytes, model_hash)}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{} loss on {} of {} tokens, 95 % intervals over the sequences\n",
             Name(LossKind::kNextToken), Counted(result.sequences, "sequence"),
             result.tokens);
  fmt::print("whole   {}  right {}\n", ToText(result.loss),
             ToText(result.right));
  fmt::print("cut     {}  right {}\n", ToText(result.cut),
             ToText(result.cut_right));
  fmt::print("change  {}  right {}\n", ToText(result.change, true),
             ToText(result.change_right, true));
  fmt::print("{}", Wrap(Capital(ToText(choice, result.bytes)) + ".",
                        StdoutConsole().width));
}

}  // namespace headwise

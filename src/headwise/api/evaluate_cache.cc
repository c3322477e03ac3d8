// Texts read through caches by role, every sequence through a session of its
// own, twice. Door: include/headwise/evaluate.h.
#include <algorithm>
#include <vector>

#include "headwise/api/compared.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/base/stop.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/loss.h"
#include "headwise/model.h"
#include "headwise/model_info.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/runtime/session.h"
#include "headwise/tensor/slice.h"
#include "headwise/text_input.h"

namespace headwise {
namespace {

constexpr int64_t kCacheReplicates = 2000;
constexpr int64_t kRows = 256;  // of logits at once

// CacheSums over each sequence.
struct CacheSums {
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
          const ExampleBatch& batch, Session& session, CacheSums& sums) {
  session.Clear();
  const Tensor states = session.FeedStates(batch.ids);
  const ConstTensorView x =
      Reshaped(states.view(), {states.shape(1), states.shape(2)});
  sums.loss.push_back(objective.Losses(context, batch, x, 1)[0]);
  sums.right.push_back(CountRight(context, model, x, batch.targets));
}

int64_t LongestOf(const std::vector<TextExample>& examples) {
  int64_t longest = 1;
  for (const TextExample& example : examples) {
    longest = std::max<int64_t>(longest, std::ssize(example.ids));
  }
  return longest;
}

void RequireCausal(const ModelInfo& info) {
  if (info.causal && !info.encoder_decoder) return;
  throw Error(ErrorCode::kUnsupported,
              {"evaluate", "a causal model for a cache by role",
               info.model_type, "generate takes encoder–decoders"});
}

}  // namespace

CacheEvaluation EvaluateCache(Transformer& model, const TextInput& text,
                              const KvPolicy& policy, const LossJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "evaluate");
  const JudgedInput input = JudgedInputOf(model, text, job.seed);
  RequireCausal(model.info());
  Context& context = model.context();
  const Model& of = model.state().model();
  const Objective objective(of, input.objective);
  const int64_t longest = LongestOf(input.examples);
  Session whole(context, of, {.capacity = longest});
  Session cut(context, of, {.capacity = longest, .policy = &policy});
  CacheEvaluation result;
  CacheSums base, other;
  std::vector<double> weights;
  for (size_t i = 0; i < input.examples.size(); ++i) {
    ThrowIfStopped(job.stop, "evaluate");
    const ExampleBatch batch =
        objective.Prepare({&input.examples[i], 1}, static_cast<int64_t>(i));
    Read(context, of, objective, batch, whole, base);
    Read(context, of, objective, batch, cut, other);
    weights.push_back(batch.weights[0]);
    result.tokens += std::ssize(batch.ids);
    if (job.on_progress) {
      job.on_progress("cache", static_cast<double>(i + 1),
                      static_cast<double>(input.examples.size()));
    }
  }
  const PairedBootstrap bootstrap(weights, kCacheReplicates, job.seed);
  result.sequences = std::ssize(weights);
  result.loss = CompareSums(bootstrap, base.loss, other.loss);
  result.right = CompareShares(bootstrap, base.right, other.right);
  result.bytes = cut.cache_bytes();
  return result;
}

}  // namespace headwise

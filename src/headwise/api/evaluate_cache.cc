// Texts read through caches by role, every sequence through a session of its
// own, twice. Door: include/headwise/evaluate.h.
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "headwise/api/compared.h"
#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/cache.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/heads/importance/loss_table.h"
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

// A sequence's loss, and what is right of its predictions.
std::pair<double, double> Read(Context& context, const Model& model,
                               const Objective& objective,
                               const ExampleBatch& batch, Session& session) {
  session.Clear();
  const Tensor states = session.FeedStates(batch.ids);
  const ConstTensorView x =
      Reshaped(states.view(), {states.shape(1), states.shape(2)});
  return {objective.Losses(context, batch, x, 1)[0],
          CountRight(context, model, x, batch.targets)};
}

// The first of the longest examples.
size_t LongestOf(const std::vector<TextExample>& examples) {
  const auto longest = std::ranges::max_element(
      examples, {},
      [](const TextExample& example) { return example.ids.size(); });
  return longest - examples.begin();
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
  const size_t longest = LongestOf(input.examples);
  const int64_t capacity = std::ssize(input.examples[longest].ids);
  Session whole(context, of, {.capacity = capacity});
  Session cut(context, of, {.capacity = capacity, .policy = &policy});
  CacheEvaluation result;
  std::vector<ExampleBatch> batches;
  std::vector<double> weights;
  TableWork work;
  work.stage = "cache";
  work.rows = 4;  // losses, whole and cut; what is right, whole and cut
  for (size_t i = 0; i < input.examples.size(); ++i) {
    const ExampleBatch& batch = batches.emplace_back(
        objective.Prepare({&input.examples[i], 1}, static_cast<int64_t>(i)));
    weights.push_back(batch.weights[0]);
    result.tokens += std::ssize(batch.ids);
    work.ends.push_back(i + 1);
  }
  const auto read = [&](size_t i, Session& session) {
    return Read(context, of, objective, batches[i], session);
  };
  bool read_longest = false;
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    std::tie(columns[0][0], columns[2][0]) = read(i, whole);
    std::tie(columns[1][0], columns[3][0]) = read(i, cut);
    read_longest = read_longest || i == longest;
  };
  const LossTable sums = RunKept(
      model, "evaluate", job, TextKey(input.examples), JsonText(policy, ""),
      [&](const PassOptions& pass) { return FillTable(pass, work); });
  // By another rank, or by a process that was interrupted.
  if (!read_longest) read(longest, cut);
  const PairedBootstrap bootstrap(weights, kCacheReplicates, job.seed);
  result.sequences = std::ssize(weights);
  result.loss = CompareSums(bootstrap, sums[0], sums[1]);
  result.right = CompareShares(bootstrap, sums[2], sums[3]);
  result.bytes = cut.cache_bytes();
  return result;
}

}  // namespace headwise

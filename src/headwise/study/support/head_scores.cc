// Shares of attention on chosen keys. Door: head_scores.h.
#include "headwise/study/support/head_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int64_t kNearTokens = 4;  // tokens

// Rows and keys of one kind, and what each head gave them.
struct Wanted {
  std::vector<std::pair<int64_t, int64_t>> pairs;  // (row, key) of the batch
  int64_t rows = 0;
  std::vector<double> shares;  // of the heads so far
};

// Looks at every attention call after it ran.
class PairProbe : public RunHooks {
 public:
  explicit PairProbe(std::vector<Wanted*> wanted)
      : wanted_(std::move(wanted)) {}

  void AfterAttention(const AttentionSite& /*site*/,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    for (int64_t h = 0; h < problem.heads; ++h) {
      for (Wanted* wanted : wanted_) {
        double sum = 0;
        for (const auto& [row, key] : wanted->pairs) {
          sum += Share(problem, args, h, row, key);
        }
        wanted->shares.push_back(sum / static_cast<double>(wanted->rows));
      }
    }
  }

 private:
  static double Share(const AttentionProblem& problem,
                      const AttentionArgs& args, int64_t head, int64_t row,
                      int64_t key) {
    const int64_t group = head / (problem.heads / problem.kv_heads);
    const float* q =
        args.q.As<float>() + row * args.q.stride[1] + head * args.q.stride[2];
    const float* k =
        args.k.As<float>() + key * args.k.stride[1] + group * args.k.stride[2];
    double product = 0;
    for (int64_t d = 0; d < problem.head_dim; ++d) {
      product += static_cast<double>(q[d]) * k[d];
    }
    const double scale =
        problem.scale != 0
            ? problem.scale
            : 1 / std::sqrt(static_cast<double>(problem.head_dim));
    const float lse = args.lse.As<float>()[head * args.lse.stride[1] + row];
    return std::exp(scale * product - lse);
  }

  std::vector<Wanted*> wanted_;
};

// Final states [T, d].
Temp RunBatch(Context& context, const Model& model, const TrainBatch& batch,
              const HookList& hooks) {
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.batch;
  input.hooks = hooks;
  const int64_t rows = batch.batch.total(), width = model.config().width;
  Temp x(context, model.type(), {rows, width});
  model.Run(context, model.stack(), input, x.view());
  return x;
}

}  // namespace

std::vector<int32_t> Repeats::Tokens(Rng& rng) const {
  const int64_t period = rng.Between(min_period, max_period);
  std::vector<int32_t> all(vocabulary);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) {
    if (i < period) {
      std::swap(all[i], all[rng.Between(i, vocabulary - 1)]);
      tokens.push_back(all[i]);
    } else {
      tokens.push_back(tokens[i - period]);
    }
  }
  return tokens;
}

MadeBatches RepeatBatches(const Repeats& repeats, uint64_t seed,
                          bool only_repeated) {
  return MadeBatches(seed, [repeats, only_repeated](Rng& rng) {
    MadeSequence made = NextToken(repeats.Tokens(rng));
    if (!only_repeated) return made;
    const size_t period =
        std::find(made.ids.begin() + 1, made.ids.end(), made.ids[0]) -
        made.ids.begin();
    std::fill_n(made.targets.begin(), period, kIgnoreTarget);
    return made;
  });
}

HeadScores ScoreHeads(Context& context, const Model& model,
                      const BatchSource& data, int64_t count, RunHooks* hooks) {
  const TrainBatch batch = data.Make(0, count);
  Wanted previous, near, prefix, same;
  for (int64_t b = 0; b < count; ++b) {
    const int64_t start = batch.batch.starts[b];
    for (int64_t i = start; i < batch.batch.starts[b + 1]; ++i) {
      if (i > start) {
        previous.pairs.emplace_back(i, i - 1);
        ++previous.rows;
        ++near.rows;
      }
      for (int64_t j = std::max(start, i - kNearTokens); j < i; ++j) {
        near.pairs.emplace_back(i, j);
      }
      const size_t before = same.pairs.size();
      for (int64_t j = start; j < i; ++j) {
        if (batch.ids[j] != batch.ids[i]) continue;
        same.pairs.emplace_back(i, j);
        prefix.pairs.emplace_back(i, j + 1);
      }
      if (same.pairs.size() == before) continue;
      ++same.rows;
      ++prefix.rows;
    }
  }
  PairProbe probe({&previous, &near, &prefix, &same});
  RunBatch(context, model, batch, {hooks, &probe});
  return {previous.shares, near.shares, prefix.shares, same.shares};
}

double LossWith(Context& context, const Model& model, const BatchSource& data,
                int64_t count, RunHooks* hooks) {
  const TrainBatch batch = data.Make(0, count);
  const Temp x = RunBatch(context, model, batch, hooks);
  HeadTargets targets;
  targets.targets = batch.targets;
  return model.HeadLoss(context, x.view(), targets) /
         static_cast<double>(batch.CountTargets());
}

}  // namespace headwise

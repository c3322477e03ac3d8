// Door: attention_bench.h.
#include "bench/attention_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/attention_data.h"
#include "bench/peers.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise::bench {
namespace {

// The backward makes five products where the forward makes two.
constexpr double kBackwardFlops = 2.5;

// Inputs and results of one observation, summed per head: what profiles use.
struct Observed {
  Tensor features;                  // [B, N, C]
  Tensor query_labels, key_labels;  // [L, B, M], [L, B, N]
  Tensor sums, histogram, feature_mass, label_mass;
  Observation observation;

  int64_t ResultBytes() const {
    return static_cast<int64_t>(sums.bytes() + histogram.bytes() +
                                feature_mass.bytes() + label_mass.bytes());
  }
};

Tensor Labels(int64_t channels, int64_t batch, int64_t length) {
  Tensor labels(DType::kI32, {channels, batch, length});
  for (int64_t i = 0; i < labels.size(); ++i) {
    labels.As<int32_t>()[i] = static_cast<int32_t>(i * 7919 % 509);
  }
  return labels;
}

void Request(const Config& config, const AttentionProblem& p,
             const std::string& level, Observed& observed) {
  Observation& observation = observed.observation;
  const bool full = level == "full";
  observation.statistics = full ? Statistics::kFull : Statistics::kCore;
  observed.sums = Tensor(DType::kF64, {p.batch, p.heads, kSumColumns});
  observation.summed.sums = observed.sums.view();
  if (full) {
    observed.histogram =
        Tensor(DType::kF64, {p.batch, p.heads, kHistogramBuckets});
    observation.summed.histogram = observed.histogram.view();
  }
  if (config.features > 0) {
    observed.features =
        Tensor(DType::kF32, {p.batch, p.key_len, config.features});
    FillRandom(observed.features, 5);
    observed.feature_mass =
        Tensor(DType::kF64, {p.batch, p.heads, config.features});
    observation.key_features = observed.features.view();
    observation.summed.feature_mass = observed.feature_mass.view();
  }
  if (config.labels > 0) {
    observed.query_labels = Labels(config.labels, p.batch, p.query_len);
    observed.key_labels = Labels(config.labels, p.batch, p.key_len);
    observed.label_mass =
        Tensor(DType::kF64, {p.batch, p.heads, config.labels});
    observation.query_labels = observed.query_labels.view();
    observation.key_labels = observed.key_labels.view();
    observation.summed.label_mass = observed.label_mass.view();
  }
}

// One of ours, with all that its calls touch.
struct Ours {
  std::shared_ptr<Context> context;
  const AttentionData& data;
  Tensor out;  // [B, M, H, D]
  Tensor lse;  // [B, H, M], for the backward
  Tensor dout, dq, dk, dv;
  Observed observed;
  AttentionArgs args;
  AttentionGrads grads;

  Ours(std::shared_ptr<Context> owner, const AttentionData& inputs)
      : context(std::move(owner)), data(inputs) {
    const AttentionProblem& p = data.problem;
    out = Tensor(p.type, {p.batch, p.query_len, p.heads, p.head_dim});
    args.q = data.q.view();
    args.k = data.k.view();
    args.v = data.v.view();
    args.out = out.view();
  }
  void PrepareBackward() {
    const AttentionProblem& p = data.problem;
    lse = Tensor(DType::kF32, {p.batch, p.heads, p.query_len});
    args.lse = lse.view();
    dout = Tensor(p.type, {p.batch, p.query_len, p.heads, p.head_dim});
    FillRandom(dout, 4);
    dq = Tensor(p.type, {p.batch, p.query_len, p.heads, p.head_dim});
    dk = Tensor(p.type, {p.batch, p.key_len, p.kv_heads, p.head_dim});
    dv = Tensor(p.type, {p.batch, p.key_len, p.kv_heads, p.head_dim});
    grads.dout = dout.view();
    grads.dq = dq.view();
    grads.dk = dk.view();
    grads.dv = dv.view();
  }
  void Forward() { AttentionForward(*context, data.problem, args); }
  void Backward() { AttentionBackward(*context, data.problem, args, grads); }
};

// Wrong results are not timed.
void CheckOurs(const AttentionData& data, const Row& row, const Tensor& out) {
  const double error = AttentionError(data, out);
  if (error <= AttentionTolerance(data.problem.type)) return;
  throw Error(ErrorCode::kInternal,
              {"bench", "the result of a dense softmax",
               fmt::format("{} off by {:.1e}", row.impl, error), ""});
}

Candidate MakeOurs(const Config& config, const AttentionData& data, Row row,
                   const std::shared_ptr<Context>& context) {
  auto ours = std::make_shared<Ours>(context, data);
  const bool backward = row.pass == "backward";
  if (backward) ours->PrepareBackward();
  if (row.observe != "none") {
    Request(config, data.problem, row.observe, ours->observed);
    ours->args.observation = &ours->observed.observation;
    if (config.features > 0) {
      row.impl += fmt::format(" +{} features", config.features);
    }
    if (config.labels > 0)
      row.impl += fmt::format(" +{} labels", config.labels);
  }
  double flops = AttentionFlops(data.problem);
  std::function<double(int)> time = Timed([ours] { ours->Forward(); });
  context->ResetPeakScratch();
  double first = time(1);
  CheckOurs(data, row, ours->out);
  if (backward) {
    flops *= kBackwardFlops;
    time = Timed([ours] { ours->Backward(); });
    context->ResetPeakScratch();
    first = time(1);
  }
  row.extra_bytes = static_cast<int64_t>(context->PeakScratchBytes()) +
                    ours->observed.ResultBytes();
  return {row, flops, std::move(time), first};
}

// Names of the implementations to time: the one that dispatch takes, or all.
std::vector<std::string> Names(const AttentionProblem& problem,
                               const std::string& pass, bool all) {
  const Context context(ContextOptions{.threads = 1, .implementations = {}});
  const std::string_view preferred =
      context.PreferredImplementation("attention");
  std::vector<std::string> names;
  const AttentionPass wanted =
      pass == "backward" ? AttentionPass::kBackward : AttentionPass::kForward;
  for (const AttentionImplementation& one :
       AttentionImplementations().entries) {
    if (!WhyNot(one, wanted, problem).empty()) continue;
    if (!all && !preferred.empty() && preferred != one.name) continue;
    names.push_back(one.name);
    if (!all) break;
  }
  if (names.empty()) {
    throw Error(ErrorCode::kUnsupported,
                {"bench attention", "an implementation of the " + pass,
                 "none for " + ToString(problem),
                 "headwise explain attention tells why"});
  }
  return names;
}

Row Prototype(const AttentionProblem& p, const std::string& mask,
              const std::string& pass) {
  Row row;
  row.op = "attention";
  row.pass = pass;
  row.type = Name(p.type);
  row.mask = mask;
  row.batch = p.batch;
  row.heads = p.heads;
  row.kv_heads = p.kv_heads;
  row.query_len = p.query_len;
  row.key_len = p.key_len;
  row.head_dim = p.head_dim;
  return row;
}

std::vector<Candidate> OurCandidates(const Config& config,
                                     const Options& options,
                                     const AttentionData& data, Row row) {
  std::vector<Candidate> candidates;
  const bool backward = row.pass == "backward";
  for (const std::string& name : Names(data.problem, row.pass, options.all)) {
    for (int threads : config.threads) {
      row.impl = name;
      row.threads = threads;
      auto context = std::make_shared<Context>(ContextOptions{
          .threads = threads, .implementations = "attention:" + name});
      for (const std::string& level : config.observe) {
        row.observe = level;
        if (backward && level != "none") continue;
        candidates.push_back(MakeOurs(config, data, row, context));
      }
    }
  }
  return candidates;
}

Result BenchOne(const Config& config, const Options& options,
                const std::string& mask, const std::string& pass) {
  const AttentionProblem problem = MakeProblem(config, mask);
  const AttentionData data = MakeAttentionData(problem);
  Row row = Prototype(problem, mask, pass);
  std::vector<Candidate> candidates = OurCandidates(config, options, data, row);
  Peers peers;
  if (options.peers) {
    const double flops =
        AttentionFlops(problem) * (pass == "backward" ? kBackwardFlops : 1.0);
    for (int threads : config.threads) {
      row.threads = threads;
      const AttentionRequest request{data, row, flops};
      AddOnnxRuntimeAttention(request, peers);
      AddOpenBlasAttention(request, peers);
      AddTorchAttention(request, peers);
    }
    std::move(peers.candidates.begin(), peers.candidates.end(),
              std::back_inserter(candidates));
  }
  const LoadWatch watch;
  Measure({.budget_seconds = options.seconds,
           .settle_seconds = SettleSeconds(config)},
          candidates);
  Result result;
  result.title = fmt::format("attention {}: {}", pass, ToString(problem));
  for (const Candidate& candidate : candidates) {
    result.rows.push_back(candidate.row);
  }
  // Peers say the same for every number of threads.
  std::sort(peers.notes.begin(), peers.notes.end());
  peers.notes.erase(std::unique(peers.notes.begin(), peers.notes.end()),
                    peers.notes.end());
  result.notes = std::move(peers.notes);
  if (std::string note = LoadNote(watch); !note.empty()) {
    result.notes.push_back(std::move(note));
  }
  result.peer_versions = std::move(peers.versions);
  return result;
}

}  // namespace

double SettleSeconds(const Config& config) {
  const bool threaded =
      std::any_of(config.threads.begin(), config.threads.end(),
                  [](int threads) { return threads > 1; });
  return threaded ? 0.03 : 0.0;
}

std::vector<Result> BenchAttention(const Config& config,
                                   const Options& options) {
  std::vector<Result> results;
  for (const std::string& pass : config.pass) {
    for (const std::string& mask : config.mask) {
      results.push_back(BenchOne(config, options, mask, pass));
    }
  }
  return results;
}

}  // namespace headwise::bench

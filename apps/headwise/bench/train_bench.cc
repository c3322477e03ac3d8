// Door: train_bench.h.
#include "bench/train_bench.h"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "bench/attention_data.h"
#include "bench/measure.h"
#include "bench/random_batches.h"
#include "headwise/attention.h"
#include "headwise/error.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/model/summary.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/train/trainer.h"

namespace headwise::bench {
namespace {

// Attention's backward counts 2.5 times its forward (five products, not two).
constexpr double kAttentionBackward = 2.5;

ModelConfig ShapeOf(const TrainOptions& options) {
  if (!options.folder.empty()) return OpenConfig(options.folder);
  const Json json = {
      {"model_type", "llama"},          {"hidden_size", 256},
      {"intermediate_size", 688},       {"num_hidden_layers", 6},
      {"num_attention_heads", 8},       {"vocab_size", 4096},
      {"max_position_embeddings", 512}, {"tie_word_embeddings", true}};
  return ReadConfig(json, "bench train");
}

// What a candidate works on; kept alive by its closure.
struct Training {
  explicit Training(const TrainOptions& options, const ModelConfig& shape,
                    int threads)
      : context({.threads = threads, .implementations = ""}),
        store(ParameterStore::Fresh(shape, {})),
        model(BuildModel(shape, store)),
        source(shape.vocabulary, options.length) {
    config.batch = config.micro_batch = options.batch;
    config.sequence = options.length;
    trainer = std::make_unique<Trainer>(context, config, *model, *store);
  }

  Context context;
  TrainConfig config;
  std::shared_ptr<ParameterStore> store;
  std::unique_ptr<Model> model;
  RandomBatches source;
  std::unique_ptr<Trainer> trainer;
};

// C [m, n] = A [m, k] · prepared B [k, n], as `bench matmul` has it.
Candidate Product(Context& context, int64_t m, int64_t n, int64_t k) {
  struct Data {
    Tensor a, b, c;
    std::shared_ptr<PreparedWeights> weights;
  };
  auto data = std::make_shared<Data>();
  data->a = Tensor(DType::kF32, {m, k});
  data->c = Tensor(DType::kF32, {m, n});
  FillRandom(data->a, 1);
  data->b = Tensor(DType::kF32, {k, n});
  FillRandom(data->b, 2);
  data->weights = Prepare({std::as_const(data->b).view()}, Operand::kPlain);
  Candidate candidate;
  candidate.flops = 2.0 * static_cast<double>(m * n * k);
  candidate.time = Timed([data, &context, m, n, k] {
    MatmulArgs args;
    args.a = data->a.view();
    args.weights = data->weights.get();
    args.c = data->c.view();
    Matmul(context, {.m = m, .n = n, .k = k}, args);
  });
  return candidate;
}

// One layer's attention, forward and backward.
Candidate Attention(Context& context, const AttentionProblem& problem) {
  struct Data {
    AttentionData in;
    Tensor out, lse, dout, dq, dk, dv;
  };
  const int64_t b = problem.batch, m = problem.query_len, h = problem.heads;
  const int64_t g = problem.kv_heads, d = problem.head_dim;
  auto data = std::make_shared<Data>();
  data->in = MakeAttentionData(problem);
  for (Tensor* tensor : {&data->out, &data->dout, &data->dq}) {
    *tensor = Tensor(DType::kF32, {b, m, h, d});
  }
  for (Tensor* tensor : {&data->dk, &data->dv}) {
    *tensor = Tensor(DType::kF32, {b, m, g, d});
  }
  data->lse = Tensor(DType::kF32, {b, h, m});
  FillRandom(data->dout, 3);
  Candidate candidate;
  candidate.flops = (1 + kAttentionBackward) * AttentionFlops(problem);
  candidate.time = Timed([data, &context, problem] {
    AttentionArgs args;
    args.q = std::as_const(data->in.q).view();
    args.k = std::as_const(data->in.k).view();
    args.v = std::as_const(data->in.v).view();
    args.out = data->out.view();
    args.lse = data->lse.view();
    AttentionForward(context, problem, args);
    AttentionGrads grads;
    grads.dout = data->dout.view();
    grads.dq = data->dq.view();
    grads.dk = data->dk.view();
    grads.dv = data->dv.view();
    AttentionBackward(context, problem, args, grads);
  });
  return candidate;
}

// How often a step has each candidate.
struct Parts {
  std::vector<Candidate> candidates;
  std::vector<double> counts;

  // Milliseconds and FLOPs of those in [begin, end).
  std::pair<double, double> Sum(size_t begin, size_t end) const {
    double ms = 0, flops = 0;
    for (size_t i = begin; i < end; ++i) {
      ms += counts[i] * candidates[i].row.ms;
      flops += counts[i] * candidates[i].flops;
    }
    return {ms, flops};
  }
};

void AddProducts(Context& context, const Model& model, int64_t rows,
                 Parts& parts) {
  std::map<std::tuple<int64_t, int64_t, int64_t>, double> shapes;
  auto linears = LinearsOf(model.predictor());
  for (const Linear* linear :
       {&model.head().transform, &model.head().vocabulary}) {
    if (*linear) linears.push_back(linear);
  }
  for (const Linear* linear : linears) {
    const int64_t out = linear->out(), in = linear->in();
    shapes[{rows, out, in}] += 1;  // y = x·Wᵀ
    shapes[{rows, in, out}] += 1;  // dx = dy·W
    shapes[{out, in, rows}] += 1;  // dW = dyᵀ·x
  }
  for (const auto& [shape, count] : shapes) {
    const auto [m, n, k] = shape;
    parts.candidates.push_back(Product(context, m, n, k));
    parts.counts.push_back(count);
  }
}

void AddAttention(Context& context, const ModelConfig& shape,
                  const TrainOptions& options, Parts& parts) {
  for (const LayerShape& layer : shape.layers) {
    if (layer.heads == 0) continue;
    AttentionProblem problem;
    problem.batch = options.batch;
    problem.heads = layer.heads;
    problem.kv_heads = layer.kv_heads;
    problem.query_len = problem.key_len = options.length;
    problem.head_dim = problem.value_dim = shape.head_dim;
    problem.mask = layer.window > 0 ? AttentionMask::SlidingWindow(layer.window)
                                    : AttentionMask::Causal();
    parts.candidates.push_back(Attention(context, problem));
    parts.counts.push_back(1);
  }
}

TrainRow RunThreads(const TrainOptions& options, const ModelConfig& shape,
                    int threads, std::vector<std::string>& notes) {
  Training training(options, shape, threads);
  Context& context = training.context;
  const int64_t rows = options.batch * options.length;
  Parts parts;
  AddProducts(context, *training.model, rows, parts);
  const size_t attention = parts.candidates.size();
  AddAttention(context, shape, options, parts);
  const size_t step = parts.candidates.size();
  Candidate whole;
  whole.time = Timed([&training] { training.trainer->Step(training.source); });
  parts.candidates.push_back(std::move(whole));
  const LoadWatch watch;
  Measure({.budget_seconds = options.seconds}, parts.candidates);
  if (std::string note = LoadNote(watch); !note.empty()) {
    notes.push_back(std::move(note));
  }
  TrainRow row;
  row.threads = threads;
  row.ms = parts.candidates[step].row.ms;
  row.spread = parts.candidates[step].row.spread;
  row.tokens_per_second = 1e3 * static_cast<double>(rows) / row.ms;
  const auto [products_ms, flops] = parts.Sum(0, attention);
  row.gflops = 1e-6 * flops / row.ms;
  row.matmul_gflops = 1e-6 * flops / products_ms;
  const auto [attention_ms, attention_flops] = parts.Sum(attention, step);
  row.attention_ms = attention_ms;
  row.attention_gflops =
      attention_ms > 0 ? 1e-6 * attention_flops / attention_ms : 0;
  return row;
}

}  // namespace

TrainResult BenchTrain(const TrainOptions& options) {
  const ModelConfig shape = ShapeOf(options);
  if (!shape.causal || shape.encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"bench train", "a causal language model", shape.model_type,
                 "such as llama or gpt2"});
  }
  TrainResult result;
  result.batch = options.batch;
  result.length = options.length;
  result.title = fmt::format(
      "train: {} layers × {} heads × {}, feed-forward {}, vocabulary {};\n"
      "       {} sequences × {} tokens a step, f32",
      shape.layers.size(), shape.layers.front().heads, shape.width,
      shape.hidden, shape.vocabulary, options.batch, options.length);
  for (const int threads : options.threads) {
    result.rows.push_back(RunThreads(options, shape, threads, result.notes));
  }
  return result;
}

std::string Table(const TrainResult& result) {
  std::string text = fmt::format(
      "{:>3} {:>8} {:>7} {:>9} {:>8}  {:14} {:>11}  {}\n", "th", "ms", "spread",
      "tokens/s", "GFLOP/s", "of matmul's", "attention", "without");
  for (const TrainRow& row : result.rows) {
    text += fmt::format(
        "{:>3} {:>8.1f} {:>6.1f}% {:>9.0f} {:>8.1f}  {:14} {:>8.1f} ms  {}\n",
        row.threads, row.ms, 100 * row.spread, row.tokens_per_second,
        row.gflops,
        fmt::format("{:.0f} % of {:.1f}", 100 * row.share(), row.matmul_gflops),
        row.attention_ms,
        fmt::format("{:.0f} %", 100 * row.share_without_attention()));
  }
  return text;
}

Json ToJson(const TrainResult& result, const TrainRow& row) {
  return {{"op", "train"},
          {"impl", "headwise"},
          {"threads", row.threads},
          {"batch", result.batch},
          {"length", result.length},
          {"ms", row.ms},
          {"spread", row.spread},
          {"tokens_per_second", row.tokens_per_second},
          {"gflops", row.gflops},
          {"matmul_gflops", row.matmul_gflops},
          {"share", row.share()},
          {"attention_ms", row.attention_ms},
          {"attention_gflops", row.attention_gflops},
          {"share_without_attention", row.share_without_attention()}};
}

}  // namespace headwise::bench

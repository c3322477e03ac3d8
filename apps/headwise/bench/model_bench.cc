// Door: model_bench.h.
#include "bench/model_bench.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include "bench/attention_data.h"
#include "bench/measure.h"
#include "bench/model_peer.h"
#include "bench/read_bandwidth.h"
#include "headwise/base/rng.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/summary.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/runtime/session.h"

namespace headwise::bench {
namespace {

// Tokens of one decode sample, after a prompt of as many.
constexpr int64_t kDecodeTokens = 32;

std::vector<int32_t> RandomIds(const ModelConfig& config, int64_t count) {
  Rng rng(11);
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) {
    id = static_cast<int32_t>(rng.Below(config.vocabulary));
  }
  return ids;
}

// Asks for the core statistics of every head, summed; nobody reads them.
class CoreStatistics : public RunHooks {
 public:
  explicit CoreStatistics(Context& context) : context_(context) {}

  void BeforeAttention(const AttentionSite&, const AttentionProblem& problem,
                       AttentionArgs& args) override {
    sums_ = Tensor(context_, DType::kF64,
                   {problem.batch, problem.heads, kSumColumns});
    observation_.summed.sums = sums_.view();
    args.observation = &observation_;
  }

 private:
  Context& context_;
  Observation observation_;
  Tensor sums_;
};

// A candidate and what becomes of its time.
struct Timing {
  ModelRow row;
  double tokens = 0;  // of one call
  double work = 0;    // bytes or FLOPs of one call
  Candidate candidate;
};

// The most memory this process has held, in bytes.
int64_t PeakResident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

Candidate Call(std::function<void()> call) {
  Candidate candidate;
  candidate.time = Timed(std::move(call));
  return candidate;
}

// One number of threads: its candidates, timed side by side.
class ModelRun {
 public:
  ModelRun(const ModelOptions& options, const Model& model, int threads)
      : options_(options),
        model_(model),
        threads_(threads),
        context_(std::make_shared<Context>(
            ContextOptions{.threads = threads, .implementations = ""})) {}

  void Run(ModelResult& result) {
    if (model_.config().causal && !model_.config().encoder_decoder()) {
      if (!options_.observe) AddDecode();
      AddPrefill();
    } else if (!model_.config().encoder_decoder()) {
      AddEncode(result);
    } else {
      result.notes.push_back("encoder–decoders are not timed as a whole");
      return;
    }
    const LoadWatch watch;
    std::vector<Candidate> candidates;
    for (const Timing& timing : timings_) {
      candidates.push_back(timing.candidate);
    }
    Measure(
        {.budget_seconds = options_.seconds,
         .settle_seconds = threads_ > 1 && !options_.onnx.empty() ? 0.05 : 0},
        candidates);
    for (size_t i = 0; i < timings_.size(); ++i) Finish(candidates[i], i);
    SetBounds();
    for (Timing& timing : timings_) {
      if (!timing.row.pass.empty()) result.rows.push_back(timing.row);
    }
    if (std::string note = LoadNote(watch); !note.empty()) {
      result.notes.push_back(std::move(note));
    }
  }

 private:
  Timing& Add(const char* pass, const char* unit, std::function<void()> call) {
    Timing timing;
    timing.row.pass = pass;
    timing.row.threads = threads_;
    timing.row.unit = unit;
    timing.candidate = Call(std::move(call));
    return timings_.emplace_back(std::move(timing));
  }

  void AddDecode() {
    auto context = context_;
    const Model& model = model_;
    const auto ids = RandomIds(model.config(), 2 * kDecodeTokens);
    auto session = std::make_shared<Session>(
        *context, model, SessionOptions{.capacity = 2 * kDecodeTokens});
    const auto prompt = [ids, session] {
      session->Clear();
      session->Feed(std::span(ids).first(kDecodeTokens));
    };
    Timing& decode = Add("decode", "GB/s", {});
    // The prompt of each call is not part of the time.
    decode.candidate.time = [context, ids, session, prompt](int calls) {
      double seconds = 0;
      for (int c = 0; c < calls; ++c) {
        prompt();
        seconds += Timed([&] {
          for (int64_t i = 0; i < kDecodeTokens; ++i) {
            session->Feed(std::span(ids).subspan(kDecodeTokens + i, 1));
          }
        })(1);
      }
      return seconds;
    };
    decode.tokens = kDecodeTokens;
    decode.work =
        static_cast<double>(kDecodeTokens * WeightBytesOfToken(model));
    auto reader = std::make_shared<ReadBandwidth>(WeightBytesOfToken(model));
    bandwidth_ = timings_.size();
    Add("", "GB/s", [reader, context] { reader->Read(*context); }).work =
        static_cast<double>(reader->bytes());
  }

  void AddPrefill() {
    auto context = context_;
    const Model& model = model_;
    const int64_t tokens = options_.prompt;
    const auto ids = RandomIds(model.config(), tokens);
    auto observer = std::make_shared<CoreStatistics>(*context);
    auto session = std::make_shared<Session>(
        *context, model,
        SessionOptions{.capacity = tokens,
                       .hooks = options_.observe ? observer.get() : nullptr});
    Timing& prefill =
        Add("prefill", "GFLOP/s", [ids, session, context, observer] {
          session->Clear();
          session->Feed(ids);
        });
    const RunCost cost = CostOf(model.config(), tokens);
    prefill.tokens = static_cast<double>(tokens);
    prefill.work = cost.flops() - cost.head_flops * (1 - 1.0 / prefill.tokens);
    if (!options_.observe) AddProducts(std::min(tokens, kChunkRows));
  }

  void AddEncode(ModelResult& result) {
    auto context = context_;
    const Model& model = model_;
    const int64_t total = options_.batch * options_.length;
    const auto ids = RandomIds(model.config(), total);
    const std::vector<int64_t> lengths(options_.batch, options_.length);
    auto out = std::make_shared<Tensor>();
    auto call = [=, &model] {
      *out = Forward(*context, model, {.ids = ids, .lengths = lengths});
    };
    call();  // what the peer's output is held to
    const double work = static_cast<double>(options_.batch) *
                        (CostOf(model.config(), options_.length).flops() -
                         CostOf(model.config(), options_.length).head_flops);
    Timing& encode = Add("encode", "GFLOP/s", call);
    encode.tokens = static_cast<double>(total);
    encode.work = work;
    if (!options_.onnx.empty()) {
      const EncoderRequest request = {options_.onnx,   ids,      options_.batch,
                                      options_.length, threads_, *out};
      if (auto peer = MakeOnnxEncoder(request, result)) {
        Timing& other = Add("encode", "GFLOP/s", std::move(peer));
        other.row.impl = "onnxruntime";
        other.tokens = static_cast<double>(total);
        other.work = work;
      }
    }
    AddProducts(total);
  }

  // The model's products alone, packed, with `rows` rows.
  void AddProducts(int64_t rows) {
    std::map<std::pair<int64_t, int64_t>, double> shapes;
    for (const Linear* linear : LinearsOf(model_.predictor())) {
      shapes[{linear->out(), linear->in()}] += 1;
    }
    for (const auto& [shape, count] : shapes) {
      struct Data {
        Tensor a, b, c;
        std::shared_ptr<PreparedWeights> weights;
      };
      auto data = std::make_shared<Data>();
      const auto [n, k] = shape;
      data->a = Tensor(DType::kF32, {rows, k});
      data->b = Tensor(DType::kF32, {n, k});
      data->c = Tensor(DType::kF32, {rows, n});
      FillRandom(data->a, 1);
      FillRandom(data->b, 2);
      data->weights =
          Prepare({std::as_const(data->b).view()}, Operand::kTransposed);
      auto context = context_;
      const MatmulProblem problem = {.m = rows, .n = n, .k = k};
      products_.emplace_back(timings_.size(), count);
      Add("", "GFLOP/s", [data, context, problem] {
        MatmulArgs args;
        args.a = data->a.view();
        args.weights = data->weights.get();
        args.c = data->c.view();
        Matmul(*context, problem, args);
      }).work = 2.0 * static_cast<double>(rows * n * k);
    }
  }

  void Finish(const Candidate& timed, size_t index) {
    Timing& timing = timings_[index];
    ModelRow& row = timing.row;
    row.ms = timed.row.ms;
    row.spread = timed.row.spread;
    row.tokens_per_second = timing.tokens / (1e-3 * row.ms);
    row.rate = timing.work / (1e6 * row.ms);
  }

  void SetBounds() {
    double flops = 0, ms = 0;
    for (const auto& [index, count] : products_) {
      flops += count * timings_[index].work;
      ms += count * timings_[index].row.ms;
    }
    const ModelRow* peer = nullptr;
    for (Timing& timing : timings_) {
      ModelRow& row = timing.row;
      if (row.impl != "headwise") peer = &row;
      if (row.pass == "decode") row.bound = timings_[bandwidth_].row.rate;
      if (row.pass == "prefill" || row.pass == "encode") {
        row.bound = ms > 0 ? flops / (1e6 * ms) : 0;
      }
    }
    for (Timing& timing : timings_) {
      if (peer != nullptr && timing.row.pass == peer->pass) {
        timing.row.ratio = peer->ms / timing.row.ms;
      }
    }
  }

  static constexpr int64_t kChunkRows = 512;  // of a session's prompt

  const ModelOptions& options_;
  const Model& model_;
  int threads_;
  std::shared_ptr<Context> context_;
  std::deque<Timing> timings_;  // references to them stay valid
  size_t bandwidth_ = 0;
  std::vector<std::pair<size_t, double>> products_;  // timing, how often
};

}  // namespace

ModelResult BenchModel(const ModelOptions& options) {
  const Checkpoint checkpoint(options.folder);
  const Model& model = checkpoint.model();
  ModelResult result;
  result.title =
      fmt::format("{}: {:.1f} MB of weights a token", options.folder,
                  1e-6 * static_cast<double>(WeightBytesOfToken(model)));
  for (const int threads : options.threads) {
    ModelRun(options, model, threads).Run(result);
  }
  if (options.observe) {
    result.notes.push_back(fmt::format(
        "every head observed; at most {} MiB resident", PeakResident() >> 20));
  }
  return result;
}

std::string Table(const ModelResult& result) {
  size_t name = 0;
  for (const ModelRow& row : result.rows)
    name = std::max(name, row.impl.size());
  std::string text = fmt::format(
      "{:8} {:>2} {:{}} {:>9} {:>6} {:>9} {:>15}  {}\n", "pass", "th", "", name,
      "ms", "spread", "tokens/s", "rate", "of machine's");
  for (const ModelRow& row : result.rows) {
    text += fmt::format(
        "{:8} {:>2} {:{}} {:>9.2f} {:>5.0f}% {:>9.0f} {:>7.1f} {:7}", row.pass,
        row.threads, row.impl, name, row.ms, 100 * row.spread,
        row.tokens_per_second, row.rate, row.unit);
    if (row.bound > 0) {
      text += fmt::format("  {:.0f} % of {:.1f}", 100 * row.rate / row.bound,
                          row.bound);
    }
    if (row.ratio > 0 && row.impl == "headwise") {
      text += fmt::format(", {:.2f}× the peer", row.ratio);
    }
    text += "\n";
  }
  return text;
}

Json ToJson(const ModelRow& row) {
  Json json = {{"op", "model"},
               {"pass", row.pass},
               {"impl", row.impl},
               {"threads", row.threads},
               {"ms", row.ms},
               {"spread", row.spread},
               {"tokens_per_second", row.tokens_per_second},
               {"unit", row.unit},
               {"rate", row.rate}};
  if (row.bound > 0) {
    json["bound"] = row.bound;
    json["share"] = row.rate / row.bound;
  }
  if (row.ratio > 0) json["ratio"] = row.ratio;
  return json;
}

}  // namespace headwise::bench

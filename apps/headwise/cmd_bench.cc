// `headwise bench`: the speed of the operators, of models and of training,
// beside peers where installed.
#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/attention_bench.h"
#include "bench/decode_bench.h"
#include "bench/model_bench.h"
#include "bench/profile_bench.h"
#include "bench/prune_bench.h"
#include "bench/random_model.h"
#include "bench/rank_bench.h"
#include "bench/report.h"
#include "bench/step_bench.h"
#include "bench/train_bench.h"
#include "commands.h"
#include "console.h"
#include "engine_flags.h"
#include "problem_flags.h"

namespace headwise {
namespace bench_command {
namespace {

struct Settings {
  ProblemFlags problem;
  bench::ModelOptions model;
  bench::DecodeOptions decode;
  bench::ProfileBenchOptions profile;
  bench::RankBenchOptions rank;
  EngineFlags engine;
  std::string shape;
  std::string metrics = "core";
  bool no_record = false;
  bool no_gates = false;
  bench::Options options;
  bool quick = false;
  bool json = false;
};

// Small enough that every table is done in seconds.
constexpr int64_t kQuickLength = 512;
constexpr double kQuickSeconds = 1.5;

std::vector<bench::Result> RunAll(Settings& settings) {
  ProblemFlags& problem = settings.problem;
  std::vector<bench::Result> all;
  for (bench::Config& config : problem.Problems()) {
    if (settings.quick) {
      settings.options.seconds = kQuickSeconds;
      if (!problem.Given("query_len")) {
        config.query_len = std::min(config.query_len, kQuickLength);
        config.key_len = std::min(config.key_len, kQuickLength);
      }
    }
    auto results = problem.op == "matmul"
                       ? bench::BenchMatmul(config, settings.options)
                       : bench::BenchAttention(config, settings.options);
    for (bench::Result& result : results) {
      if (!settings.json) {
        WriteStdout("{}\n{}", result.title, bench::Table(result.rows));
        for (const std::string& note : result.notes) {
          WriteStdout("  note: {}\n", note);
        }
        WriteStdout("\n");
        std::fflush(stdout);  // tables appear as they are done
      }
      all.push_back(std::move(result));
    }
  }
  return all;
}

void PrintMachine(const Json& machine,
                  const std::vector<std::string>& versions) {
  WriteStdout("machine: {}, {} cores, {}; headwise {}\n",
              machine["cpu"].get<std::string>(), machine["cores"].get<int>(),
              machine["isa"].get<std::string>(),
              machine["headwise"].get<std::string>());
  for (const std::string& version : versions) {
    WriteStdout("peer: {}\n", version);
  }
}

void PrintDocument(Json machine, Json rows,
                   const std::vector<std::string>& notes) {
  for (const std::string& note : notes) WriteStderr("note: {}\n", note);
  Json document;
  document["machine"] = std::move(machine);
  document["rows"] = std::move(rows);
  WriteJson(document.dump(1));
}

// A result with a title, rows and notes, as a table or as JSON.
template <typename Result, typename ToJsonOfRow>
int Print(const Settings& settings, const Result& result,
          const std::vector<std::string>& versions,
          const ToJsonOfRow& json_of) {
  Json machine = bench::DescribeMachine(versions);
  if (settings.json) {
    Json rows = Json::array();
    for (const auto& row : result.rows) rows.push_back(json_of(row));
    PrintDocument(std::move(machine), std::move(rows), result.notes);
    return kSucceeded;
  }
  WriteStdout("{}\n{}", result.title, bench::Table(result));
  for (const std::string& note : result.notes)
    WriteStdout("  note: {}\n", note);
  PrintMachine(machine, versions);
  return kSucceeded;
}

// `bench model MODEL`.
int RunModel(Settings& settings) {
  if (settings.model.folder.empty()) {
    throw UsageError("expected the model's folder: bench model MODEL");
  }
  bench::ModelOptions& options = settings.model;
  options.threads = settings.problem.config.threads;
  options.observe = settings.problem.Given("observe") &&
                    settings.problem.config.observe[0] != "none";
  options.seconds = settings.quick ? kQuickSeconds : settings.options.seconds;
  const bench::ModelResult result = bench::BenchModel(options);
  return Print(settings, result, result.peer_versions,
               [&](const auto& row) { return bench::ToJson(row); });
}

// The device, which must be here, and --type where it was given.
EngineFlags& EngineOf(Settings& settings) {
  EngineFlags& engine = settings.engine;
  if (settings.problem.Given("type")) {
    engine.type = settings.problem.config.type;
  }
  engine.Require();
  return engine;
}

// Shared by profile, rank, train and decode: a random model on any device.
template <typename Options, typename Bench>
int RunOnDevice(Settings& settings, Options& options, Bench run) {
  const CommandLine& line = *settings.problem.line;
  if (line.Given("--shape")) options.shape = settings.shape;
  if (line.Given("--seconds")) options.seconds = settings.options.seconds;
  if (settings.quick) options.seconds = kQuickSeconds;
  EngineFlags& engine = EngineOf(settings);
  engine.threads =
      line.Given("--threads") ? settings.problem.config.threads[0] : 0;
  options.type = engine.compute();
  const auto result = run(engine.context(), options);
  if (settings.json) {
    PrintDocument(bench::DescribeMachine({}),
                  Json::array({bench::ToJson(result)}), {});
  } else {
    WriteStdout("{}", bench::Table(result));
    PrintMachine(bench::DescribeMachine({}), {});
  }
  return kSucceeded;
}

// `bench train [MODEL]`: on the CPU beside the products alone, on any device
// whole steps of a shape.
int RunTrain(Settings& settings) {
  if (settings.engine.device != "cpu" ||
      settings.problem.line->Given("--shape")) {
    bench::StepBenchOptions steps;
    const CommandLine& given = *settings.problem.line;
    if (!settings.model.folder.empty() && given.Given("--shape")) {
      throw UsageError("expected --shape or a model's folder; found both");
    }
    if (!settings.model.folder.empty()) steps.shape = settings.model.folder;
    if (given.Given("--sentences")) steps.sequences = settings.model.batch;
    if (given.Given("--length")) steps.length = settings.model.length;
    steps.gates = !settings.no_gates;
    return RunOnDevice(settings, steps, bench::BenchStep);
  }
  bench::TrainOptions options;
  options.folder = settings.model.folder;
  const CommandLine& line = *settings.problem.line;
  if (line.Given("--sentences")) options.batch = settings.model.batch;
  if (line.Given("--length")) options.length = settings.model.length;
  options.threads = settings.problem.config.threads;
  options.seconds = settings.quick ? kQuickSeconds : settings.options.seconds;
  const bench::TrainResult result = bench::BenchTrain(options);
  return Print(settings, result, {},
               [&](const auto& row) { return bench::ToJson(result, row); });
}

// `bench decode [MODEL]`.
int RunDecode(Settings& settings) {
  bench::DecodeOptions& options = settings.decode;
  options.folder = settings.model.folder;
  options.record = !settings.no_record;
  if (!options.folder.empty() && settings.problem.line->Given("--shape")) {
    throw UsageError("expected --shape or a model's folder; found both");
  }
  return RunOnDevice(settings, options, bench::BenchDecode);
}

// `bench profile`.
int RunProfile(Settings& settings) {
  bench::ProfileBenchOptions& options = settings.profile;
  if (settings.problem.line->Given("--length")) {
    options.length = settings.model.length;
  }
  if (settings.metrics == "all") options.metrics = MetricSet::kAll;
  if (settings.metrics == "none") options.metrics = {};
  return RunOnDevice(settings, options, bench::BenchProfile);
}

// `bench rank`.
int RunRank(Settings& settings) {
  bench::RankBenchOptions& options = settings.rank;
  const CommandLine& line = *settings.problem.line;
  if (line.Given("--sentences")) options.sequences = settings.model.batch;
  if (line.Given("--length")) options.length = settings.model.length;
  return RunOnDevice(settings, options, bench::BenchRank);
}

// `bench prune`.
int RunPrune(Settings& settings) {
  bench::PruneBenchOptions options;
  const EngineFlags& engine = EngineOf(settings);
  options.where = engine.context();
  options.type = engine.compute();
  if (settings.problem.line->Given("--sentences")) {
    options.sequences = settings.model.batch;
  }
  options.tokens = settings.model.prompt;
  options.threads = settings.problem.config.threads;
  options.seconds = settings.quick ? kQuickSeconds : settings.options.seconds;
  const bench::PruneBenchResult result = bench::BenchPrune(options);
  return Print(settings, result, {},
               [&](const auto& row) { return bench::ToJson(result, row); });
}

int Run(Settings& settings) {
  if (settings.problem.op == "decode") return RunDecode(settings);
  if (settings.problem.op == "profile") return RunProfile(settings);
  if (settings.problem.op == "rank") return RunRank(settings);
  if (settings.problem.op == "model") return RunModel(settings);
  if (settings.problem.op == "train") return RunTrain(settings);
  if (settings.problem.op == "prune") return RunPrune(settings);
  std::vector<bench::Result> results = RunAll(settings);
  std::vector<std::string> versions, notes;
  Json rows = Json::array();
  auto add_new = [](const std::vector<std::string>& from,
                    std::vector<std::string>& to) {
    for (const std::string& one : from) {
      if (std::find(to.begin(), to.end(), one) == to.end()) to.push_back(one);
    }
  };
  for (const bench::Result& result : results) {
    add_new(result.peer_versions, versions);
    add_new(result.notes, notes);
    for (const bench::Row& row : result.rows) {
      rows.push_back(bench::ToJson(row));
    }
  }
  Json machine = bench::DescribeMachine(versions);
  if (!settings.json) {
    PrintMachine(machine, versions);
    return kSucceeded;
  }
  PrintDocument(std::move(machine), std::move(rows), notes);
  return kSucceeded;
}

std::function<int()> Setup(CommandLine line) {
  auto settings = std::make_shared<Settings>();
  settings->problem.Declare(
      line, "attention, decode, matmul, model, profile, prune, rank or train");
  line.Option("--device", settings->engine.device,
              "bench decode, profile, prune, rank, train: cpu, cuda, cuda:N or "
              "auto")
      .Check(WhyNotDevice)
      .ShowDefault();
  line.Option("--shape", settings->shape,
              "bench decode, profile, rank, train: random weights of " +
                  bench::ShapeNames());
  line.Option("--context", settings->decode.context,
              "bench decode: tokens before the first that is timed")
      .Between(1, 1 << 20)
      .ShowDefault();
  line.Option("--tokens", settings->decode.tokens,
              "bench decode: tokens of a text that is timed")
      .Between(1, 1 << 20)
      .ShowDefault();
  line.Flag("--no-record", settings->no_record,
            "bench decode: steps on a GPU are not recorded and run as one");
  line.Flag("--no-gates", settings->no_gates,
            "bench train of a shape: no gradients of the heads' gates");
  line.Option("--metrics", settings->metrics,
              "bench profile: core, all or none")
      .OneOf({"core", "all", "none"})
      .ShowDefault();
  line.Option("MODEL", settings->model.folder,
              "bench decode, model, train: the model's folder (train: its "
              "shape)");
  line.Option("--onnx", settings->model.onnx,
              "bench model: the same encoder for ONNX Runtime, f32");
  line.Option("--prompt", settings->model.prompt,
              "bench model, prune: tokens of the prompt")
      .Between(1, 1 << 20)
      .ShowDefault();
  line.Option("--sentences", settings->model.batch,
              "bench model: sentences an encoder reads at one time; bench "
              "train: sequences of a step (8; of a shape 64); bench prune: "
              "sequences (1)")
      .Between(1, 1 << 16)
      .ShowDefault();
  line.Option("--length", settings->model.length,
              "bench model: tokens of a sentence; bench train: of a "
              "sequence (256); bench rank: likewise (1024); bench profile: of "
              "a window (1024)")
      .Between(1, 1 << 20)
      .ShowDefault();
  line.Flag("--peers", settings->options.peers,
            "time other libraries beside ours (bench/peers/setup)");
  line.Flag("--all", settings->options.all,
            "time every implementation, not only the one in use");
  line.Option("--seconds", settings->options.seconds,
              "time for one table, about")
      .Between(0.001, 3600.0)
      .ShowDefault();
  line.Flag("--quick", settings->quick,
            "at most 512 positions, a second or two for a table");
  line.Flag("--json", settings->json, "for machines");
  return [settings] { return Run(*settings); };
}

}  // namespace
}  // namespace bench_command

const Command kBenchCommand = {
    "bench", Group::kTools, "Speed of the operators, of models and of training",
    "  headwise bench attention --quick\n"
    "  headwise bench attention --query-len 2048 --threads 1,2 --peers\n"
    "  headwise bench attention --problems bench/problems/attention.json\n"
    "  headwise bench matmul --m 128 --n 384 --k 384 --peers --json\n"
    "  headwise bench model models/minimind2-small --threads 1,2\n"
    "  headwise bench model models/stories260K --prompt 65536 --observe core\n"
    "  headwise bench model models/minilm-l6 --onnx minilm.onnx\n"
    "  headwise bench decode --device cuda --shape llama-7b\n"
    "  headwise bench profile --device cuda --length 4096\n"
    "  headwise bench prune --prompt 1024\n"
    "  headwise bench rank --device cuda\n"
    "  headwise bench train --threads 1,2",
    bench_command::Setup};

}  // namespace headwise

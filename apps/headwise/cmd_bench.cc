// `headwise bench`: the speed of the operators, beside peers where installed.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "bench/attention_bench.h"
#include "bench/report.h"
#include "commands.h"
#include "problem_flags.h"

namespace headwise {
namespace {

struct Settings {
  ProblemFlags problem;
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
        fmt::print("{}\n{}", result.title, bench::Table(result.rows));
        for (const std::string& note : result.notes) {
          fmt::print("  note: {}\n", note);
        }
        fmt::print("\n");
        std::fflush(stdout);  // tables appear as they are done
      }
      all.push_back(std::move(result));
    }
  }
  return all;
}

int Run(Settings& settings) {
  std::vector<bench::Result> results = RunAll(settings);
  std::vector<std::string> versions, notes;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
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
  nlohmann::ordered_json machine = bench::DescribeMachine(versions);
  if (!settings.json) {
    fmt::print("machine: {}, {} cores, {}; headwise {}\n",
               machine["cpu"].get<std::string>(), machine["cores"].get<int>(),
               machine["isa"].get<std::string>(),
               machine["headwise"].get<std::string>());
    for (const std::string& version : versions) {
      fmt::print("peer: {}\n", version);
    }
    return kSucceeded;
  }
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
  nlohmann::ordered_json document;
  document["machine"] = std::move(machine);
  document["rows"] = std::move(rows);
  fmt::print("{}\n", document.dump(1));
  return kSucceeded;
}

std::function<int()> Setup(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  settings->problem.Declare(app);
  app.add_flag("--peers", settings->options.peers,
               "time other libraries beside ours (bench/peers/setup)");
  app.add_flag("--all", settings->options.all,
               "time every implementation, not only the one in use");
  app.add_option("--seconds", settings->options.seconds,
                 "time for one table, about")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app.add_flag("--quick", settings->quick,
               "at most 512 positions, a second or two for a table");
  app.add_flag("--json", settings->json, "for machines");
  return [settings] { return Run(*settings); };
}

}  // namespace

const Command kBenchCommand = {
    "bench", Group::kTools, "speed of the operators, beside peers",
    "  headwise bench attention --quick\n"
    "  headwise bench attention --query-len 2048 --threads 1,2 --peers\n"
    "  headwise bench attention --problems bench/problems/attention.json\n"
    "  headwise bench matmul --m 128 --n 384 --k 384 --peers --json",
    Setup};

}  // namespace headwise

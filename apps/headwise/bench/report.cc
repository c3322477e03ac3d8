// Door: report.h.
#include "bench/report.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <thread>

#include "headwise/context.h"
#include "headwise/drawing/text.h"
#include "headwise/version.h"
#include "machine.h"

namespace headwise::bench {
namespace {

// The least ms of rows that `take` takes; 0: there is none.
template <typename Take>
double Fastest(const std::vector<Row>& rows, Take take) {
  double best = 0;
  for (const Row& row : rows) {
    if (take(row) && (best == 0 || row.ms < best)) best = row.ms;
  }
  return best;
}

std::string Ratio(double numerator, double denominator) {
  if (numerator <= 0 || denominator <= 0) return "";
  return fmt::format("{:.2f}×", numerator / denominator);
}

std::string Memory(const Row& row) {
  if (!row.extra_bytes) return "?";
  return fmt::format("{:.1f} MiB", 1.0 * *row.extra_bytes / (1 << 20));
}

// "+5.1 %" over the same implementation without statistics.
std::string Cost(const std::vector<Row>& rows, const Row& row) {
  if (row.observe == "none") return "";
  // The features and labels of "cpu.f32 +16 features" belong to the cost.
  const std::string impl = row.impl.substr(0, row.impl.find(" +"));
  const double plain = Fastest(rows, [&](const Row& other) {
    return other.impl == impl && other.threads == row.threads &&
           other.observe == "none";
  });
  if (plain == 0) return "";
  return fmt::format("{:+.1f} %", (row.ms / plain - 1) * 100);
}

std::string Gain(const std::vector<Row>& rows, const Row& row) {
  if (row.threads == 1) return "";
  const double single = Fastest(rows, [&](const Row& other) {
    return other.impl == row.impl && other.observe == row.observe &&
           other.threads == 1;
  });
  return Ratio(single, row.ms);
}

}  // namespace

Json DescribeMachine(const std::vector<std::string>& peer_versions) {
  utsname system{};
  uname(&system);
  Json machine;
  machine["cpu"] = CpuName();
  machine["cores"] = std::thread::hardware_concurrency();
  machine["arch"] = system.machine;
  machine["isa"] = InstructionSet();
  machine["os"] = fmt::format("{} {}", system.sysname, system.release);
  machine["compiler"] = __VERSION__;
  machine["headwise"] = HEADWISE_VERSION_STRING;
  machine["peers"] = peer_versions;
  return machine;
}

Json ToJson(const Row& row) {
  Json json;
  json["op"] = row.op;
  json["impl"] = row.impl;
  json["peer"] = row.peer;
  json["pass"] = row.pass;
  json["type"] = row.type;
  json["mask"] = row.mask;
  json["batch"] = row.batch;
  json["heads"] = row.heads;
  json["kv_heads"] = row.kv_heads;
  json["query_len"] = row.query_len;
  json["key_len"] = row.key_len;
  json["head_dim"] = row.head_dim;
  json["threads"] = row.threads;
  json["observe"] = row.observe;
  json["ms"] = row.ms;
  json["spread"] = row.spread;
  json["gflops"] = row.gflops;
  json["extra_bytes"] = row.extra_bytes ? Json(*row.extra_bytes) : Json();
  return json;
}

std::string Table(const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {"impl", "threads", "observe", "ms", "spread", "GFLOP/s", "extra",
       "vs peer", "cost", "scaling"}};
  for (const Row& row : rows) {
    const double peer = Fastest(rows, [&](const Row& other) {
      return other.peer && other.threads == row.threads;
    });
    lines.push_back({row.impl, std::to_string(row.threads), row.observe,
                     fmt::format("{:.3f}", row.ms),
                     fmt::format("{:.1f} %", row.spread * 100),
                     fmt::format("{:.1f}", row.gflops), Memory(row),
                     Ratio(peer, row.ms), Cost(rows, row), Gain(rows, row)});
  }
  // As wide as what stands in them; what nothing stands in is left out.
  std::vector<int> widths(lines[0].size(), 0);
  for (size_t c = 0; c < widths.size(); ++c) {
    for (size_t r = 1; r < lines.size(); ++r) {
      widths[c] = std::max(widths[c], DisplayWidth(lines[r][c]));
    }
    if (widths[c] == 0) continue;
    widths[c] = std::max(widths[c], DisplayWidth(lines[0][c]));
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) {
    std::string out = "  " + PadRight(line[0], widths[0]);
    for (size_t c = 1; c < line.size(); ++c) {
      if (widths[c] > 0) out += "  " + PadLeft(line[c], widths[c]);
    }
    text += out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace headwise::bench

// Door: study_all.h.
#include "study_all.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "console.h"
#include "headwise/base/atomic_file.h"
#include "headwise/drawing/study_report.h"
#include "headwise/drawing/terminal.h"
#include "headwise/error.h"
#include "headwise/version.h"
#include "machine.h"
#include "progress_bar.h"

namespace headwise {
namespace {

constexpr Verdict kVerdicts[] = {Verdict::kHeld, Verdict::kRefuted,
                                 Verdict::kUndecided, Verdict::kExploratory};

// The kept record of this study, if a run would measure the same now.
std::optional<Json> Kept(const Study& study, const StudyRequest& request,
                         const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  Json kept = ReadJson(file);
  if (!kept.is_object() || kept.value("full", false) != request.full) {
    return std::nullopt;
  }
  // More seeds than are asked for are as good.
  const Json seeds = kept.value("seeds", Json::array());
  for (const uint64_t seed : SeedsOf(study, request)) {
    if (study.trained && std::ranges::find(seeds, seed) == seeds.end()) {
      return std::nullopt;
    }
  }
  Context context({.threads = 1, .implementations = ""});
  if (kept.value("hash", "") != ExpectedHash(study, context, request)) {
    return std::nullopt;
  }
  return kept;
}

// One study on the device asked for, or on the CPU where it needs that.
Json RunAndKeep(const Study& study, const EngineFlags& engine,
                const StudyRequest& request,
                const std::filesystem::path& file) {
  ContextOptions options = engine.context();
  if (!study.any_device) options.device = Device{};
  Context context(options);
  const StudyResult result = RunStudy(study, context, request);
  Json record = StudyRecord(study, result, context.device());
  WriteFileAtomically(file, record.dump(1) + "\n");
  return record;
}

std::vector<std::string> RowOf(const Json& record) {
  int64_t judged = 0, held = 0;
  for (const auto& [name, figure] : record.at("figures").items()) {
    if (!figure.at("decides").get<bool>()) continue;
    ++judged;
    held += figure.at("verdict") == Name(Verdict::kHeld) ? 1 : 0;
  }
  return {record.at("study").get<std::string>(),
          record.at("verdict").get<std::string>(),
          fmt::format("{} of {}", held, judged),
          std::to_string(record.at("seeds").size()),
          fmt::format("{:.1f}", record.at("seconds").get<double>())};
}

}  // namespace

Json StudyRecord(const Study& study, const StudyResult& result, Device device) {
  Json record = StudyJson(study, result);
  record["machine"] = MachineName(device);
  record["device"] = ToString(device);
  record["version"] = HEADWISE_VERSION_STRING;
  record["date"] = Today();
  return record;
}

int RunStudies(std::span<const Study* const> studies, const EngineFlags& engine,
               const StudyRequest& request, const std::filesystem::path& folder,
               bool json) {
  std::filesystem::create_directories(folder);
  StudyTable table{
      "Studies", {"study", "", "figures held", "seeds", "seconds"}, {}};
  Json records = Json::array(), counts = Json::object();
  for (const Verdict verdict : kVerdicts) counts[Name(verdict)] = 0;
  bool failed = false;
  for (const Study* study : studies) {
    const std::filesystem::path file =
        folder / (std::string(study->name) + ".json");
    try {
      std::optional<Json> record = Kept(*study, request, file);
      if (!record) record = RunAndKeep(*study, engine, request, file);
      table.rows.push_back(RowOf(*record));
      const std::string word = record->at("verdict").get<std::string>();
      counts[word] = counts[word].get<int64_t>() + 1;
      failed |= !record->at("laws_held").get<bool>();
      records.push_back(std::move(*record));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      failed = true;
      WriteStderr("study {}: {}\n", study->name, error.what());
      table.rows.push_back({study->name, "failed", "", "", ""});
    }
  }
  if (json) {
    const Json all = {{"counts", counts}, {"studies", records}};
    WriteJson(all.dump(2));
  } else {
    WriteDrawn("{}\n", DrawTable(table, StdoutConsole()));
    std::string line;
    for (const Verdict verdict : kVerdicts) {
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", Name(verdict),
                          counts[Name(verdict)].get<int64_t>());
    }
    WriteStdout("{}\n", line);
  }
  return failed ? kFailed : kSucceeded;
}

}  // namespace headwise

// Checkpoints of a run. Door: checkpoints.h.
#include "headwise/train/checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/version.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;
constexpr const char* kFormat = "headwise.training/1";
constexpr const char* kPrefix = "step-";

Path Folder(const Path& out) { return out / "checkpoints"; }

// −1 for a name that is no checkpoint's.
int64_t StepOf(const Path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return -1;
  const std::string digits = name.substr(std::strlen(kPrefix));
  if (digits.empty() || digits.size() > 15 ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return -1;
  }
  return std::stoll(digits);
}

void WriteJson(const Path& path, const Json& json) {
  WriteFileAtomically(path, json.dump(1) + "\n");
}

void WriteModelFiles(const Path& folder, const RunFiles& files) {
  WriteJson(folder / "config.json", files.config);
  if (files.tokenizer.empty()) return;
  const MappedFile tokenizer(files.tokenizer);
  WriteFileAtomically(folder / "tokenizer.json", tokenizer.text());
  WriteJson(folder / "tokenizer_config.json", files.tokenizer_config);
}

// The rename must outlast a power cut too.
void SyncFolder(const Path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

[[noreturn]] void FailIo(const Path& path, const std::error_code& code) {
  throw Error(ErrorCode::kIo,
              {path.string(), "to be written", code.message(), ""});
}

void RemoveOlder(const Path& out, int64_t step, int64_t keep_every) {
  std::error_code ignored;
  std::vector<Path> gone;
  for (const auto& one : std::filesystem::directory_iterator(Folder(out))) {
    const int64_t other = StepOf(one.path());
    const bool unfinished = one.path().extension() == ".tmp";
    const bool old = other >= 0 && other < step;
    if (!unfinished && (!old || (keep_every > 0 && other % keep_every == 0))) {
      continue;
    }
    gone.push_back(one.path());
  }
  for (Path path : gone) {
    // What is half removed when the power goes must not look whole.
    if (StepOf(path) >= 0) {
      const Path hidden = path.string() + ".tmp";
      std::filesystem::rename(path, hidden, ignored);
      if (!ignored) path = hidden;
    }
    std::filesystem::remove_all(path, ignored);
  }
}

}  // namespace

Json TrainingRecord::ToJson() const {
  Json points = Json::array();
  for (const auto& [at, loss] : validation) points.push_back({at, loss});
  return {{"format", kFormat}, {"version", HEADWISE_VERSION},
          {"step", step},      {"parameters", parameters},
          {"tokens", tokens},  {"seconds", seconds},
          {"data", data},      {"machine", machine},
          {"config", config},  {"validation", points},
          {"losses", losses}};
}

TrainingRecord TrainingRecord::FromFile(const Path& file) {
  const Json json = ReadJson(file);
  TrainingRecord record;
  try {
    if (json.at("format") != kFormat) {
      throw Error(ErrorCode::kCorrupt,
                  {"format", kFormat, json.at("format").dump(), ""});
    }
    record.config = json.at("config");
    record.data = json.at("data");
    record.machine = json.at("machine");
    json.at("step").get_to(record.step);
    json.at("parameters").get_to(record.parameters);
    json.at("seconds").get_to(record.seconds);
    json.at("tokens").get_to(record.tokens);
    json.at("losses").get_to(record.losses);
    json.at("validation").get_to(record.validation);
  } catch (const Error& error) {
    throw Error(ErrorCode::kCorrupt,
                {file.string(), std::string("a ") + kFormat + " file",
                 error.what(), ""});
  }
  return record;
}

std::optional<Path> NewestCheckpoint(const Path& out) {
  std::optional<Path> newest;
  if (!std::filesystem::is_directory(Folder(out))) return newest;
  for (const auto& one : std::filesystem::directory_iterator(Folder(out))) {
    const int64_t step = StepOf(one.path());
    if (step >= 0 && (!newest || step > StepOf(*newest))) newest = one.path();
  }
  return newest;
}

void SaveCheckpoint(const Path& out, const RunFiles& files,
                    const ParameterStore& store, const Optimizer& optimizer,
                    const TrainingRecord& record) {
  const Path target =
      Folder(out) / fmt::format("{}{:08}", kPrefix, record.step);
  if (std::filesystem::exists(target)) return;
  const Path building = target.string() + ".tmp";
  std::error_code code;
  std::filesystem::remove_all(building, code);
  std::filesystem::create_directories(building, code);
  if (code) FailIo(building, code);
  WriteModelFiles(building, files);
  store.Save(building / "model.safetensors", DType::kF32);
  WriteSafetensors(building / "optimizer.safetensors", optimizer.State());
  WriteJson(building / "training.json", record.ToJson());
  SyncFolder(building);
  std::filesystem::rename(building, target, code);
  if (code) FailIo(target, code);
  SyncFolder(Folder(out));
  RemoveOlder(out, record.step, record.config.value("keep_every", 0));
}

void RestoreCheckpoint(const Path& folder, ParameterStore& store,
                       Optimizer& optimizer, int64_t step) {
  const Safetensors weights = Safetensors::Open(folder);
  for (auto& [name, entry] : store.entries()) {
    const ConstTensorView from = weights.At(name);
    const ConstTensorView to = std::as_const(entry.value).view();
    if (from.type != DType::kF32 || from.rank != to.rank ||
        from.shape != to.shape) {
      throw Error(ErrorCode::kCorrupt,
                  {weights.where(), "\"" + name + "\" as " + ToString(to),
                   ToString(from), "is it another model's checkpoint?"});
    }
    std::memcpy(entry.value.As<float>(), from.data, entry.value.bytes());
  }
  optimizer.Restore(Safetensors::Open(folder / "optimizer.safetensors"), step);
}

void SaveModel(const Path& out, const RunFiles& files,
               const ParameterStore& store, DType type,
               const TrainingRecord& record) {
  WriteModelFiles(out, files);
  store.Save(out / "model.safetensors", type);
  WriteJson(out / "training.json", record.ToJson());
}

}  // namespace headwise

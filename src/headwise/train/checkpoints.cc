// Checkpoints of a run. Door: checkpoints.h.
#include "headwise/train/checkpoints.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/version.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;
constexpr const char* kFormat = "headwise.training/1";
constexpr const char* kPrefix = "step-";

Path Folder(const Path& out) { return out / "checkpoints"; }

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
  throw Error(ErrorCode::kIo, {path.string(), "to be written", code.message(),
                               "check the space and the rights of the folder"});
}

std::vector<Path> Entries(const Path& folder) {
  std::vector<Path> entries;
  std::error_code code;
  std::filesystem::directory_iterator at(folder, code);
  for (; !code && at != std::filesystem::directory_iterator();
       at.increment(code)) {
    entries.push_back(at->path());
  }
  const bool none = code == std::errc::no_such_file_or_directory;
  if (code && !none) {
    throw Error(ErrorCode::kIo,
                {folder.string(), "a folder that can be read", code.message(),
                 "check its name and its rights"});
  }
  return entries;
}

void Remove(Path folder) {
  std::error_code ignored;
  // A folder half removed when the power goes must not look whole.
  if (StepOfCheckpoint(folder) >= 0) {
    const Path hidden = folder.string() + ".tmp";
    std::filesystem::rename(folder, hidden, ignored);
    if (!ignored) folder = hidden;
  }
  std::filesystem::remove_all(folder, ignored);
}

void RemoveOlder(const Path& out, const TrainingRecord& record) {
  const int64_t keep_every = record.config.value("keep_every", int64_t{0});
  const auto best = record.Best();
  for (const Path& path : Entries(Folder(out))) {
    const int64_t step = StepOfCheckpoint(path);
    const bool unfinished = path.extension() == ".tmp";
    const bool kept = (keep_every > 0 && step % keep_every == 0) ||
                      (best && step == best->first);
    if (unfinished || (step >= 0 && step < record.step && !kept)) Remove(path);
  }
}

// One field of training.json: a whole number from `least` on. A run that goes
// on adds to it.
int64_t Count(const JsonCursor& file, const char* key, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 60;
  return file[key].Int(least, kMost);
}

double Finite(const JsonCursor& field) {
  const double value = field.Number();
  if (!std::isfinite(value)) field.Fail("a finite number");
  return value;
}

std::vector<JsonCursor> Elements(const JsonCursor& field) {
  if (!field.value().is_array()) field.Fail("an array");
  return field.Items();
}

Json Object(const JsonCursor& field) {
  if (!field.value().is_object()) field.Fail("an object");
  return field.value();
}

}  // namespace

Json TrainingRecord::ToJson() const {
  Json points = Json::array();
  for (const auto& [at, loss] : validation) points.push_back({at, loss});
  Json best;
  if (const auto lowest = Best()) {
    best = {{"step", lowest->first}, {"validation", lowest->second}};
  }
  return {{"format", kFormat},    {"version", HEADWISE_VERSION_STRING},
          {"step", step},         {"parameters", parameters},
          {"tokens", tokens},     {"seconds", seconds},
          {"best", best},         {"data", data},
          {"machine", machine},   {"config", config},
          {"validation", points}, {"losses", losses}};
}

std::optional<std::pair<int64_t, double>> TrainingRecord::Best() const {
  const auto lowest = std::min_element(
      validation.begin(), validation.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (lowest == validation.end()) return {};
  return *lowest;
}

TrainingRecord TrainingRecord::FromFile(const Path& file) {
  const Json json = ReadJson(file);
  const JsonCursor root(json, file.string());
  if (root["format"].String() != kFormat) root["format"].Fail(kFormat);
  TrainingRecord record;
  record.config = Object(root["config"]);
  record.data = Object(root["data"]);
  record.machine = Object(root["machine"]);
  record.step = Count(root, "step", 0);
  record.parameters = Count(root, "parameters", 0);
  record.tokens = Count(root, "tokens", 0);
  record.seconds = Finite(root["seconds"]);
  for (const JsonCursor& loss : Elements(root["losses"])) {
    record.losses.push_back(Finite(loss));
  }
  if (static_cast<int64_t>(record.losses.size()) != record.step) {
    root["step"].Fail("the number of losses, " +
                      std::to_string(record.losses.size()));
  }
  int64_t before = 0;
  for (const JsonCursor& point : Elements(root["validation"])) {
    const std::vector<JsonCursor> pair = Elements(point);
    if (pair.size() != 2) point.Fail("a step and a loss");
    before = pair[0].Int(before + 1, record.step);
    record.validation.emplace_back(before, Finite(pair[1]));
  }
  return record;
}

Path CheckpointFolder(const Path& out, int64_t step) {
  return Folder(out) / fmt::format("{}{:08}", kPrefix, step);
}

int64_t StepOfCheckpoint(const Path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return -1;
  const std::string digits = name.substr(std::strlen(kPrefix));
  if (digits.empty() || digits.size() > 15 ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return -1;
  }
  return std::stoll(digits);
}

std::optional<Path> NewestCheckpoint(const Path& out) {
  std::optional<Path> newest;
  for (const Path& path : Entries(Folder(out))) {
    const int64_t step = StepOfCheckpoint(path);
    if (step < 0) continue;
    if (!newest || step > StepOfCheckpoint(*newest)) newest = path;
  }
  return newest;
}

void RemoveCheckpoints(const Path& out) {
  for (const Path& path : Entries(Folder(out))) {
    if (StepOfCheckpoint(path) >= 0) Remove(path);
  }
}

void SaveCheckpoint(const Path& out, const RunFiles& files,
                    const ParameterStore& store, OptimizerState state,
                    const TrainingRecord& record) {
  const Path target = CheckpointFolder(out, record.step);
  std::error_code code;
  if (std::filesystem::exists(target, code)) return;
  const Path building = target.string() + ".tmp";
  std::filesystem::remove_all(building, code);
  std::filesystem::create_directories(building, code);
  if (code) FailIo(building, code);
  WriteModelFiles(building, files);
  store.Save(building / "model.safetensors", DType::kF32);
  WriteSafetensors(building / "optimizer.safetensors",
                   std::move(state.tensors));
  WriteJson(building / "training.json", record.ToJson());
  SyncFolder(building);
  std::filesystem::rename(building, target, code);
  if (code) FailIo(target, code);
  SyncFolder(Folder(out));
  RemoveOlder(out, record);
}

void RestoreCheckpoint(Context& context, const Path& folder,
                       ParameterStore& store, Optimizer& optimizer,
                       int64_t step) {
  const Safetensors weights = Safetensors::Open(folder);
  for (auto& [name, entry] : store.entries()) {
    const ConstTensorView from = weights.At(name);
    const TensorView& to = entry.value;
    if (from.type != DType::kF32 || from.rank != to.rank ||
        from.shape != to.shape) {
      throw Error(ErrorCode::kCorrupt,
                  {weights.where(), "\"" + name + "\" as " + ToString(to),
                   ToString(from), "is it another model's checkpoint?"});
    }
    Copy(context, from, to);
  }
  store.Round(context);
  const Safetensors state = Safetensors::Open(folder / "optimizer.safetensors");
  optimizer.Restore(context, state, step);
  context.Synchronize();  // the files go
}

void SaveModel(const Path& out, const RunFiles& files,
               const ParameterStore& store, DType type,
               const TrainingRecord& record) {
  WriteModelFiles(out, files);
  store.Save(out / "model.safetensors", type);
  WriteJson(out / "training.json", record.ToJson());
}

}  // namespace headwise

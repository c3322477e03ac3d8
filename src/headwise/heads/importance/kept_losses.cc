// Losses as a file: one f64 tensor [variants, sequences] a stage. Door:
// kept_losses.h.
#include "headwise/heads/importance/kept_losses.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/error.h"
#include "headwise/format/safetensors.h"

namespace headwise {
namespace {

constexpr const char* kFormat = "headwise.losses/1";
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

const std::string& Note(const Safetensors& file, const std::string& name) {
  const auto found = file.metadata().find(name);
  if (found != file.metadata().end()) return found->second;
  throw Error(ErrorCode::kCorrupt,
              {file.where(), "losses of an interrupted ranking",
               "a file without \"" + name + "\"", ""});
}

LossTable ReadStage(const Safetensors& file, const std::string& name) {
  const ConstTensorView view = file.At(name);
  if (view.type != DType::kF64 || view.rank != 2) {
    throw Error(ErrorCode::kCorrupt,
                {file.where() + ": " + name, "f64 [variants, sequences]",
                 ToString(view), ""});
  }
  LossTable table(view.shape[0]);
  for (int64_t row = 0; row < view.shape[0]; ++row) {
    const double* values = view.As<double>() + row * view.shape[1];
    table[row].assign(values, values + view.shape[1]);
  }
  return table;
}

// FNV-1a, 64 bits: tells texts apart that are not made to look alike.
class Hash {
 public:
  void Add(uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8) {
      state_ = (state_ ^ (value & 0xff)) * 0x100000001b3;
    }
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace

KeptLosses KeptLosses::Load(const std::filesystem::path& path) {
  const Safetensors file = Safetensors::Open(path);
  if (const std::string& format = Note(file, "format"); format != kFormat) {
    throw Error(ErrorCode::kCorrupt, {path.string(), kFormat, format, ""});
  }
  KeptLosses kept(
      {Note(file, "model"), Note(file, "text"), Note(file, "settings")});
  for (const auto& [name, view] : file.tensors()) {
    kept.stages_[name] = ReadStage(file, name);
  }
  return kept;
}

void KeptLosses::Save(const std::filesystem::path& path) const {
  std::vector<Tensor> memory;
  std::vector<NamedTensor> tensors;
  for (const auto& [name, table] : stages_) {
    if (table.empty()) continue;
    const auto columns = static_cast<int64_t>(table[0].size());
    memory.emplace_back(DType::kF64,
                        std::initializer_list<int64_t>{
                            static_cast<int64_t>(table.size()), columns});
    double* to = memory.back().As<double>();
    for (const std::vector<double>& row : table) {
      to = std::copy(row.begin(), row.end(), to);
    }
    tensors.push_back({name, std::as_const(memory.back()).view()});
  }
  WriteSafetensors(path, std::move(tensors),
                   {{"format", kFormat},
                    {"model", key_.model},
                    {"text", key_.text},
                    {"settings", key_.settings}});
}

LossTable& KeptLosses::Stage(const std::string& name, size_t variants,
                             size_t sequences) {
  LossTable& table = stages_[name];
  const bool fits =
      table.size() == variants &&
      std::all_of(table.begin(), table.end(),
                  [&](const auto& row) { return row.size() == sequences; });
  if (!fits) table.assign(variants, std::vector<double>(sequences, kUnknown));
  return table;
}

double KeptLosses::Done() const {
  double known = 0, all = 0;
  for (const auto& [name, table] : stages_) {
    for (const std::vector<double>& row : table) {
      for (const double value : row) known += std::isnan(value) ? 0 : 1;
      all += static_cast<double>(row.size());
    }
  }
  return all > 0 ? known / all : 0;
}

std::string TextKey(std::span<const TextExample> examples) {
  Hash hash;
  for (const TextExample& example : examples) {
    for (const std::vector<int32_t>* ids : {&example.ids, &example.target}) {
      hash.Add(ids->size());
      for (const int32_t id : *ids) hash.Add(static_cast<uint32_t>(id));
    }
  }
  return fmt::format("{} sequences, {:016x}", examples.size(), hash.state());
}

}  // namespace headwise

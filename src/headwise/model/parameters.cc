// Parameters in training. Door: parameters.h.
#include "headwise/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/rng.h"
#include "headwise/format/safetensors.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

Tensor Zeros(std::span<const int64_t> shape) {
  return shape.size() == 1 ? Tensor(DType::kF32, {shape[0]})
                           : Tensor(DType::kF32, {shape[0], shape[1]});
}

Tensor ZerosLike(const Tensor& tensor) {
  const ConstTensorView view = tensor.view();
  return Zeros({view.shape.data(), static_cast<size_t>(view.rank)});
}

// A stream of random numbers for each name (FNV-1a).
uint64_t StreamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

bool IsNorm(std::string_view name) {
  for (const char* word : {"norm", "Norm", "ln_"}) {
    if (name.find(word) != name.npos) return true;
  }
  return false;
}

// Matrices whose product is added to the residual stream.
bool WritesToStream(std::string_view name) {
  for (const char* word : {"o_proj.", "c_proj.", "down_proj.", "out_proj.",
                           "fc2.", "output.dense.", "out_lin.", "ffn.lin2."}) {
    if (name.find(word) != name.npos) return true;
  }
  return false;
}

// Which tensors that a family could do without a new model has.
bool Chosen(const ModelConfig& config, std::string_view name) {
  if (name.ends_with("token_type_embeddings.weight")) {
    return config.model_type != "distilbert";
  }
  if (!name.ends_with(".bias")) return false;
  if (config.family != "llama") return true;
  return config.model_type == "qwen2" && name.find("o_proj") == name.npos &&
         name.find("mlp") == name.npos;
}

}  // namespace

std::shared_ptr<ParameterStore> ParameterStore::Load(
    const std::filesystem::path& folder) {
  auto store = std::make_shared<ParameterStore>();
  const Safetensors file = Safetensors::Open(folder);
  store->where_ = file.where();
  Context context({.threads = 1});  // what is trained begins on the host
  for (const auto& [name, view] : file.tensors()) {
    // Counters and the like are no parameters.
    if (view.rank < 1 || view.rank > 2 || view.type == DType::kI64) continue;
    store->entries_[name].value = ToF32(context, {name, view});
  }
  return store;
}

std::shared_ptr<ParameterStore> ParameterStore::Fresh(
    const ModelConfig& config, const Initialisation& how) {
  auto store = std::make_shared<ParameterStore>();
  store->fresh_ = true;
  store->config_ = config;
  store->how_ = how;
  store->MakeUnasked();
  return store;
}

// What builders look for (rather than ask for) to tell variants apart.
void ParameterStore::MakeUnasked() {
  const int64_t square[] = {config_.width, config_.width};
  const int64_t head[] = {config_.head_dim};
  if (config_.model_type == "bert") {
    Make("cls.predictions.transform.dense.weight", square);
  } else if (config_.model_type == "roberta") {
    Make("lm_head.dense.weight", square);
  } else if (config_.model_type == "distilbert") {
    Make("vocab_transform.weight", square);
  } else if (config_.model_type == "qwen3") {
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      Make("model.layers." + std::to_string(i) + ".self_attn.q_norm.weight",
           head);
    }
  }
}

ConstTensorView ParameterStore::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  return std::as_const(found->second.value).view();
}

std::vector<std::string> ParameterStore::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

TensorView ParameterStore::Gradient(const std::string& name) const {
  // A buffer in the families that have it, not a weight.
  if (name == "final_logits_bias") return {};
  Entry& entry = entries_.at(name);
  if (entry.gradient.rank() == 0) entry.gradient = ZerosLike(entry.value);
  return entry.gradient.view();
}

ConstTensorView ParameterStore::Provide(const std::string& name,
                                        std::span<const int64_t> shape,
                                        Need need) const {
  const ConstTensorView found = Find(name);
  if (found || !fresh_ || !name.starts_with(fresh_prefix_)) return found;
  if (need == Need::kOptional && !Chosen(config_, name)) return {};
  return const_cast<ParameterStore*>(this)->Make(name, shape);
}

ConstTensorView ParameterStore::Make(const std::string& name,
                                     std::span<const int64_t> shape) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  // Only token types come without a size: BERT has two.
  std::replace(sizes.begin(), sizes.end(), kAny, int64_t{2});
  Tensor& value = entries_[name].value;
  value = Zeros(sizes);
  float* to = value.As<float>();
  if (sizes.size() == 1) {
    const bool one = IsNorm(name) && name.ends_with(".weight");
    const float first = name.ends_with(".log_alpha") ? kNewLogAlpha
                        : name.ends_with(".span")    ? kNewSpan
                                                     : 0.0f;
    std::fill_n(to, value.size(), one ? 1.0f : first);
    return std::as_const(value).view();
  }
  double deviation = how_.deviation;
  if (how_.scale_residual && WritesToStream(name)) {
    deviation /= std::sqrt(2.0 * static_cast<double>(config_.layers.size()));
  }
  Rng rng(how_.seed, StreamOf(name));
  for (int64_t i = 0; i < value.size(); ++i) {
    to[i] = static_cast<float>(deviation * rng.Normal());
  }
  return std::as_const(value).view();
}

int64_t ParameterStore::Count() const {
  int64_t count = 0;
  for (const auto& [name, entry] : entries_) count += entry.gradient.size();
  return count;
}

void ParameterStore::ClearGradients(Context& context) {
  // A whole matrix is little for one thread and much for many.
  constexpr int64_t kPiece = 1 << 16;
  std::vector<std::span<float>> pieces;
  for (auto& [name, entry] : entries_) {
    float* values = entry.gradient.As<float>();
    for (int64_t at = 0; at < entry.gradient.size(); at += kPiece) {
      pieces.emplace_back(values + at,
                          std::min(kPiece, entry.gradient.size() - at));
    }
  }
  context.pool().ParallelFor(
      static_cast<int64_t>(pieces.size()),
      [&](int64_t task, int) { std::ranges::fill(pieces[task], 0.0f); });
}

void ParameterStore::Save(const std::filesystem::path& file, DType type) const {
  std::vector<NamedTensor> tensors;
  std::vector<Tensor> rounded;
  rounded.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    ConstTensorView view = entry.value.view();
    if (type == DType::kBF16) {
      Tensor& to = rounded.emplace_back(
          view.rank == 1 ? Tensor(type, {view.shape[0]})
                         : Tensor(type, {view.shape[0], view.shape[1]}));
      for (int64_t i = 0; i < to.size(); ++i) {
        to.As<uint16_t>()[i] = ToBf16(entry.value.As<float>()[i]);
      }
      view = std::as_const(to).view();
    }
    tensors.push_back({name, view});
  }
  WriteSafetensors(file, std::move(tensors), {{"format", "pt"}});
}

}  // namespace headwise

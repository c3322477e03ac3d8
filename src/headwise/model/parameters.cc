// Parameters in training. Door: parameters.h.
#include "headwise/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/family.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

constexpr int64_t kAlignment = ParameterStore::kAlignment;
// Elements of a buffer that is made for what comes later.
constexpr int64_t kLater = int64_t{1} << 16;

constexpr int64_t kTooMuch = std::numeric_limits<int64_t>::max();

int64_t Plus(int64_t a, int64_t b) {
  return a > kTooMuch - b ? kTooMuch : a + b;
}

// Elements up to where the next tensor may begin; kTooMuch, which no memory
// has, where that is more than can be counted.
int64_t RoomFor(std::span<const int64_t> shape) {
  int64_t size = 1;
  for (const int64_t n : shape) {
    if (n > 0 && size > kTooMuch / n) return kTooMuch;
    size *= n;
  }
  size = Plus(size, kAlignment - 1);
  return size == kTooMuch ? kTooMuch : size - size % kAlignment;
}

// Counts what a model asks for, and makes nothing: its tensors have shapes and
// no memory of their own. Building a model does not look at values.
class Plan : public WeightSource {
 public:
  std::string Describe() const override { return "new weights"; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = shapes_.find(name);
    return found == shapes_.end()
               ? ConstTensorView()
               : ConstTensorView(nothing_, DType::kF32, found->second);
  }
  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const auto& [name, shape] : shapes_) names.push_back(name);
    return names;
  }
  // All are trained, so that no layer prepares them for products.
  TensorView Gradient(const std::string& name) const override {
    return {nothing_, DType::kF32, shapes_.at(name)};
  }
  bool Makes(const std::string& name) const override {
    return !shapes_.contains(name);
  }
  ConstTensorView Provide(const std::string& name,
                          std::span<const int64_t> shape,
                          const Start& start) const override {
    if (Makes(name) && start.kind != Start::Kind::kAbsent) {
      shapes_.emplace(name, Shape(shape));
      total_ = Plus(total_, RoomFor(shape));
    }
    return Find(name);
  }
  int64_t total() const { return total_; }

 private:
  alignas(64) mutable float nothing_[kAlignment] = {};
  mutable std::map<std::string, Shape> shapes_;
  mutable int64_t total_ = 0;
};

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

// A stream of random numbers for each name (FNV-1a).
uint64_t StreamOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

ParameterStore::ParameterStore(const StorePlace& place)
    : context_({.threads = 1, .device = place.device}),
      compute_(place.compute) {}

void ParameterStore::AddBuffer(int64_t size) const {
  Buffer& buffer = buffers_.emplace_back();
  buffer.value = Tensor(context_, DType::kF32, {size});
  if (compute_ != DType::kF32)
    buffer.compute = Tensor(context_, compute_, {size});
  context_.Synchronize();  // other contexts come next
}

std::shared_ptr<ParameterStore> ParameterStore::Load(
    const std::filesystem::path& folder, const StorePlace& place) {
  auto store = std::make_shared<ParameterStore>(place);
  const Safetensors file = Safetensors::Open(folder);
  store->where_ = file.where();
  std::map<std::string, ConstTensorView> parameters;
  int64_t room = 0;
  for (const auto& [name, view] : file.tensors()) {
    // Counters and the like are no parameters.
    if (view.rank < 1 || view.rank > 3 || view.type == DType::kI64) continue;
    parameters[name] = view;
    if (!IsFloat(view.type)) {
      throw Error(ErrorCode::kUnsupported,
                  {name, "f32, bf16 or f16", Name(view.type),
                   "training needs plain weights: convert the file first"});
    }
    room = Plus(room, RoomFor(ShapeOf(view)));
  }
  store->AddBuffer(room);
  for (const auto& [name, view] : parameters) {
    Copy(store->context_, view, store->Add(name, ShapeOf(view)).value);
  }
  store->context_.Synchronize();  // the file goes
  return store;
}

std::shared_ptr<ParameterStore> ParameterStore::Fresh(const ModelConfig& config,
                                                      const Initialisation& how,
                                                      const StorePlace& place) {
  auto store = std::make_shared<ParameterStore>(place);
  store->fresh_ = true;
  store->config_ = config;
  store->how_ = how;
  const Plan plan;
  FindFamily(config.model_type).build(config, plan);
  store->AddBuffer(plan.total());
  return store;
}

ConstTensorView ParameterStore::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  return found->second.value;
}

std::vector<std::string> ParameterStore::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

TensorView ParameterStore::Gradient(const std::string& name) const {
  Entry& entry = entries_.at(name);
  if (entry.gradient || entry.frozen) return entry.gradient;
  Buffer& buffer = buffers_[entry.buffer];
  if (buffer.gradient.rank() == 0) {
    buffer.gradient = Tensor(context_, DType::kF32, {buffer.value.size()});
    context_.Synchronize();  // other contexts come next
  }
  entry.gradient = entry.value;
  entry.gradient.data = Moved(buffer.gradient.view(), entry.offset).data;
  return entry.gradient;
}

bool ParameterStore::Varies(const std::string& name) const {
  return entries_.at(name).frozen;
}

void ParameterStore::Freeze(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    Entry& entry = entries_.at(name);
    entry.gradient = {};
    entry.frozen = true;
  }
}

ConstTensorView ParameterStore::Compute(const std::string& name) const {
  const Entry& entry = entries_.at(name);
  const Tensor& all = buffers_[entry.buffer].compute;
  if (all.size() == 0) return {};
  return {Moved(all.view(), entry.offset).data, all.type(),
          ShapeOf(entry.value), all.device()};
}

bool ParameterStore::Makes(const std::string& name) const {
  return fresh_ && name.starts_with(fresh_prefix_) && !entries_.contains(name);
}

ConstTensorView ParameterStore::Provide(const std::string& name,
                                        std::span<const int64_t> shape,
                                        const Start& start) const {
  if (!Makes(name) || start.kind == Start::Kind::kAbsent) return Find(name);
  auto* self = const_cast<ParameterStore*>(this);
  const Entry& entry = self->Add(name, shape);
  self->Make(entry, name, start);
  return entry.value;
}

ParameterStore::Entry& ParameterStore::Add(const std::string& name,
                                           const Shape& shape) {
  const int64_t room = RoomFor(shape);
  const auto left = [](const Buffer& b) { return b.value.size() - b.used; };
  if (buffers_.empty() || left(buffers_.back()) < room) {
    AddBuffer(std::max(kLater, room));
  }
  Buffer& buffer = buffers_.back();
  Entry& entry = entries_[name];
  entry.buffer = buffers_.size() - 1;
  entry.offset = buffer.used;
  entry.value = {Moved(buffer.value.view(), entry.offset).data, DType::kF32,
                 shape, buffer.value.device()};
  buffer.used += room;
  return entry;
}

void ParameterStore::Make(const Entry& entry, const std::string& name,
                          const Start& start) {
  if (entry.value.size() == 0) return;  // of a layer without heads
  if (start.kind == Start::Kind::kValue) {
    Fill(context_, start.value, entry.value);
    context_.Synchronize();
    return;
  }
  double deviation = how_.deviation;
  if (how_.scale_residual && start.kind == Start::Kind::kToStream) {
    deviation /= std::sqrt(2.0 * static_cast<double>(config_.layers.size()));
  }
  Rng rng(how_.seed, StreamOf(name));
  std::vector<float> values(static_cast<size_t>(entry.value.size()));
  for (float& value : values) {
    value = static_cast<float>(deviation * rng.Normal());
  }
  Copy(context_, Reshaped(ViewOf(values), ShapeOf(entry.value)), entry.value);
  context_.Synchronize();  // `values` go
}

int64_t ParameterStore::Count() const {
  int64_t count = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry.gradient || entry.frozen) count += entry.value.size();
  }
  return count;
}

void ParameterStore::ClearGradients(Context& context) {
  for (Buffer& buffer : buffers_) {
    if (buffer.gradient.size() > 0) Fill(context, 0, buffer.gradient.view());
  }
}

void ParameterStore::Round(Context& context) {
  for (Buffer& buffer : buffers_) {
    if (buffer.compute.size() == 0) continue;
    Copy(context, std::as_const(buffer.value).view(), buffer.compute.view());
  }
}

void ParameterStore::Save(const std::filesystem::path& file, DType type) const {
  std::vector<NamedTensor> tensors;
  std::vector<Tensor> rounded;
  rounded.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    ConstTensorView view = entry.value;
    if (type != view.type || !view.device.is_cpu()) {
      Tensor& to = rounded.emplace_back(type, ShapeOf(view));
      Copy(context_, view, to.view());
      view = std::as_const(to).view();
    }
    tensors.push_back({name, view});
  }
  context_.Synchronize();
  WriteSafetensors(file, std::move(tensors), {{"format", "pt"}});
}

}  // namespace headwise

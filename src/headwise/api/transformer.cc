// A model with its context. Door: include/headwise/model.h.
#include <string>
#include <utility>

#include "headwise/api/model_info.h"
#include "headwise/api/notices.h"
#include "headwise/api/state.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/text_frame.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/runtime/activations.h"
#include "headwise/tokenizer.h"

namespace headwise {
namespace {

constexpr std::string_view kNumbered = "cuda:";

TokenizerOptions ReadingFor(const OpenOptions& options) {
  return {.bos = options.bos};
}

}  // namespace

ContextOptions ContextFor(const OpenOptions& options) {
  ContextOptions context;
  context.threads = options.threads;
  context.implementations = options.implementations;
  context.device = options.device;
  return context;
}

Device ParseDevice(std::string_view word) {
  if (word == "cpu") return Device::Cpu();
  if (word == "cuda") return Device::Cuda();
  if (word == "auto") {
    try {
      return Context({.threads = 1, .device = Device::Cuda()}).device();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      return Device::Cpu();
    }
  }
  const std::string_view number =
      word.substr(std::min(word.size(), kNumbered.size()));
  if (word.starts_with(kNumbered) && !number.empty() && number.size() <= 2 &&
      number.find_first_not_of("0123456789") == number.npos) {
    return Device::Cuda(std::stoi(std::string(number)));
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"device", "cpu, cuda, cuda:N or auto", std::string(word),
               "auto takes a GPU where there is one"});
}

DType ParseType(std::string_view word) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (word == Name(type)) return type;
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"type", "f32, bf16 or f16", std::string(word),
               "leave it out for what suits the device"});
}

DType ComputeType(Device device, const std::optional<DType>& asked) {
  if (!asked) return device.is_cpu() ? DType::kF32 : DType::kBF16;
  const bool half = *asked == DType::kBF16 || *asked == DType::kF16;
  if (*asked == DType::kF32 || (half && !device.is_cpu())) return *asked;
  throw Error(ErrorCode::kInvalidArgument,
              {"type",
               device.is_cpu() ? "f32, which models on the CPU compute in"
                               : "f32, bf16 or f16",
               Name(*asked), "leave `type` out for what suits the device"});
}

void RequireWhole(const Transformer& model, const char* where) {
  if (model.edited()) {
    throw Error(ErrorCode::kInvalidArgument,
                {where, "a model without edits and hooks", "some in place",
                 "end them first"});
  }
}

void RequireHead(const Transformer& model, const HeadRef& head) {
  const auto layers = AttentionLayers(model.state().model(), head.kind);
  if (head.layer >= 0 && head.layer < std::ssize(layers) && head.head >= 0 &&
      head.head < layers[head.layer]->config().heads) {
    return;
  }
  throw Error(ErrorCode::kInvalidArgument,
              {"head", "one that the model has", ToString(head),
               "headwise info lists layers and heads"});
}

namespace {

// A GPU multiplies nothing but its own copy of the weights.
const OpenOptions& Checked(const OpenOptions& options) {
  if (!options.weight_memory || options.device.is_cpu()) return options;
  throw Error(ErrorCode::kInvalidArgument,
              {"weight_memory", "a model on the CPU", ToString(options.device),
               "a GPU keeps a copy of all weights"});
}

}  // namespace

// A device that is not there is told before anything is opened.
Transformer::State::State(const std::filesystem::path& folder,
                          const OpenOptions& asked, DType type)
    : options(Checked(asked)),
      context(ContextFor(asked)),
      checkpoint(folder, ReadingFor(asked), type, context.device(),
                 asked.weight_memory),
      info(InfoOf(checkpoint, &checkpoint.model())),
      interventions(std::make_shared<Interventions>(context)) {}

Transformer::Transformer(const std::filesystem::path& folder,
                         const OpenOptions& options)
    : state_(std::make_unique<State>(
          folder, options, ComputeType(options.device, options.type))) {
  TellUnread(*this);
  TellWeightMemory(*this);
}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;
Transformer& Transformer::operator=(Transformer&&) noexcept = default;

const std::filesystem::path& Transformer::folder() const {
  return state_->checkpoint.folder();
}
const ModelInfo& Transformer::info() const { return state_->info; }
const std::string& Transformer::hash() const {
  return state_->checkpoint.hash();
}
Context& Transformer::context() { return state_->context; }
DType Transformer::type() const { return state_->model().type(); }

const Tokenizer& Transformer::tokenizer() const {
  return state_->checkpoint.tokenizer();
}
bool Transformer::has_tokenizer() const {
  return state_->checkpoint.FindTokenizer() != nullptr;
}

Encoding Transformer::Encode(std::string_view text) const {
  return Framer(tokenizer(), state_->checkpoint.config()).Encode(text);
}
Encoding Transformer::EncodeTarget(std::string_view text) const {
  return Framer(tokenizer(), TargetFrameOf(state_->checkpoint.config()))
      .Encode(text);
}
std::string Transformer::Piece(int32_t id) const {
  return PieceText(tokenizer(), id);
}
std::string Transformer::Decode(std::span<const int32_t> ids) const {
  return tokenizer().Decode(ids);
}

std::vector<std::string> Transformer::ActivationNames() const {
  return headwise::ActivationNames(state_->model());
}
std::vector<std::string> Transformer::WeightNames() const {
  return state_->checkpoint.weights().Names();
}

Tensor Transformer::Weight(const std::string& name) {
  const ModelUse use(*state_);
  const ConstTensorView view = state_->checkpoint.weights().Find(name);
  if (!view) {
    throw Error(ErrorCode::kNotFound,
                {"weight", "a name of the checkpoint's tensors", name,
                 "WeightNames lists them"});
  }
  Tensor copy(DType::kF32, Shape(std::span(view.shape).first(view.rank)));
  Copy(state_->context, view, copy.view());
  return copy;
}

void SaveTensors(const std::filesystem::path& path,
                 const std::map<std::string, ConstTensorView>& tensors,
                 const std::map<std::string, std::string>& notes) {
  std::vector<NamedTensor> named;
  for (const auto& [name, view] : tensors) named.push_back({name, view});
  WriteSafetensors(path, std::move(named), notes);
}

Tensor CopyToHost(Context& context, const ConstTensorView& view) {
  if (!view) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"CopyToHost", "a tensor", "a null view", "give a view of memory"});
  }
  return ToHost(context, view);
}

void CopyTensor(Context& context, const ConstTensorView& from,
                const TensorView& to) {
  Copy(context, from, to);
  if (!context.device().is_cpu()) context.Synchronize();
}

struct Intervention::State {
  State(std::shared_ptr<Interventions> interventions, uint64_t n)
      : of(std::move(interventions)), number(n) {}
  std::shared_ptr<Interventions> of;
  uint64_t number = 0;
};

Intervention::Intervention() = default;
Intervention::Intervention(Intervention&&) noexcept = default;
Intervention& Intervention::operator=(Intervention&& other) noexcept {
  if (this != &other) {
    Leave();
    state_ = std::move(other.state_);
  }
  return *this;
}
Intervention::~Intervention() { Leave(); }
void Intervention::Remove() {
  if (state_ == nullptr) return;
  const std::shared_ptr<Interventions> of = state_->of;  // outlives the model
  const OneCaller caller(
      of->thread(),
      {"Intervention", "end it where the model is called, or destroy it"});
  Leave();
}
// Waits for nobody: what another thread's call obeys leaves after it.
void Intervention::Leave() {
  if (state_ != nullptr) state_->of->Remove(state_->number);
  state_.reset();
}

Intervention Transformer::Edit(HeadEdit edit) {
  const ModelUse use(*state_);
  const uint64_t number =
      state_->interventions->Add(state_->model(), std::move(edit));
  Intervention made;
  made.state_ =
      std::make_unique<Intervention::State>(state_->interventions, number);
  return made;
}

Intervention Transformer::Hook(std::string site, HookCallback callback) {
  const ModelUse use(*state_);
  const uint64_t number = state_->interventions->Add(
      state_->model(), std::move(site), std::move(callback));
  Intervention made;
  made.state_ =
      std::make_unique<Intervention::State>(state_->interventions, number);
  return made;
}

bool Transformer::edited() const { return !state_->interventions->empty(); }

}  // namespace headwise

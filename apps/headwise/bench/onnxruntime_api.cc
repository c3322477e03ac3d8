// Door: onnxruntime_api.h.
#include "bench/onnxruntime_api.h"

#include <dlfcn.h>

#include "headwise/error.h"

namespace headwise::bench {
namespace {

// Every function that can fail returns a status, null for success.
using CreateEnv = void*(int log_level, const char* id, void** out);
using CreateSession = void*(void* env, const void* model, size_t bytes,
                            void* options, void** out);
using RunSession = void*(void* session, void* run_options,
                         const char* const* input_names,
                         const void* const* inputs, size_t input_count,
                         const char* const* output_names, size_t output_count,
                         void** outputs);
using Create = void*(void** out);
using Enable = void*(void* options);
using SetInt = void*(void* options, int value);
using CreateTensor = void*(void* memory_info, void* data, size_t bytes,
                           const int64_t* shape, size_t rank, int type,
                           void** out);
using CreateCpuMemory = void*(int allocator, int memory_type, void** out);
using GetMessage = const char*(const void* status);
using ReleaseAny = void(void* object);

enum Slots : int {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kEnableMemPattern = 16,
  kEnableCpuMemArena = 18,
  kSetGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithData = 49,
  kCreateCpuMemoryInfo = 69,
  kReleaseEnv = 92,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
};

constexpr int kLogErrors = 3;
constexpr int kOptimizeAll = 99;
constexpr int kArenaAllocator = 1;
constexpr int kDefaultMemory = 0;

// What OrtGetApiBase returns.
struct ApiBase {
  void* const* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

}  // namespace

OnnxRuntime::OnnxRuntime(const std::filesystem::path& library) {
  // Never closed: its threads and statics live as long as the program.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ErrorCode::kNotFound, {"onnxruntime", "the shared library",
                                       dlerror(), "run bench/peers/setup"});
  }
  auto* get_base =
      reinterpret_cast<const ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  const ApiBase* base = get_base != nullptr ? get_base() : nullptr;
  table_ = base != nullptr ? base->get_api(1) : nullptr;
  if (table_ == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"onnxruntime", "version 1 of its C interface",
                 library.string() + " without it", "run bench/peers/setup"});
  }
  version_ = base->get_version();
  Check(Slot<CreateEnv>(kCreateEnv)(kLogErrors, "headwise", &environment_));
}

OnnxRuntime::~OnnxRuntime() {
  if (environment_ != nullptr) Slot<ReleaseAny>(kReleaseEnv)(environment_);
}

void OnnxRuntime::Check(void* status) const {
  if (status == nullptr) return;
  const std::string message = Slot<GetMessage>(kGetErrorMessage)(status);
  Slot<ReleaseAny>(kReleaseStatus)(status);
  throw Error(ErrorCode::kUnsupported, {"onnxruntime", "", message, ""});
}

OnnxSession::OnnxSession(std::shared_ptr<const OnnxRuntime> runtime,
                         const std::string& model, int threads,
                         const std::vector<OnnxTensor>& inputs,
                         const std::vector<OnnxTensor>& outputs)
    : runtime_(std::move(runtime)) {
  const OnnxRuntime& ort = *runtime_;
  try {
    void* options = nullptr;
    ort.Check(ort.Slot<Create>(kCreateSessionOptions)(&options));
    const std::unique_ptr<void, ReleaseAny*> owner(
        options, ort.Slot<ReleaseAny>(kReleaseSessionOptions));
    ort.Check(ort.Slot<Enable>(kEnableMemPattern)(options));
    ort.Check(ort.Slot<Enable>(kEnableCpuMemArena)(options));
    ort.Check(
        ort.Slot<SetInt>(kSetGraphOptimizationLevel)(options, kOptimizeAll));
    ort.Check(ort.Slot<SetInt>(kSetIntraOpNumThreads)(options, threads));
    ort.Check(ort.Slot<SetInt>(kSetInterOpNumThreads)(options, 1));
    ort.Check(ort.Slot<CreateSession>(kCreateSessionFromArray)(
        ort.environment(), model.data(), model.size(), options, &session_));
    ort.Check(ort.Slot<CreateCpuMemory>(kCreateCpuMemoryInfo)(
        kArenaAllocator, kDefaultMemory, &memory_info_));
    names_.reserve(inputs.size() + outputs.size());
    for (const OnnxTensor& tensor : inputs) {
      inputs_.push_back(Bind(tensor));
      input_names_.push_back(names_.back().c_str());
    }
    for (const OnnxTensor& tensor : outputs) {
      outputs_.push_back(Bind(tensor));
      output_names_.push_back(names_.back().c_str());
    }
  } catch (...) {
    Release();
    throw;
  }
}

OnnxSession::~OnnxSession() { Release(); }

void* OnnxSession::Bind(const OnnxTensor& tensor) {
  void* value = nullptr;
  runtime_->Check(runtime_->Slot<CreateTensor>(kCreateTensorWithData)(
      memory_info_, tensor.data, tensor.bytes, tensor.shape.data(),
      tensor.shape.size(), tensor.type, &value));
  names_.push_back(tensor.name);
  return value;
}

void OnnxSession::Release() {
  for (auto* values : {&inputs_, &outputs_}) {
    for (void* value : *values) {
      runtime_->Slot<ReleaseAny>(kReleaseValue)(value);
    }
    values->clear();
  }
  if (memory_info_ != nullptr) {
    runtime_->Slot<ReleaseAny>(kReleaseMemoryInfo)(memory_info_);
  }
  if (session_ != nullptr) {
    runtime_->Slot<ReleaseAny>(kReleaseSession)(session_);
  }
}

void OnnxSession::Run() {
  runtime_->Check(runtime_->Slot<RunSession>(kRun)(
      session_, nullptr, input_names_.data(), inputs_.data(), inputs_.size(),
      output_names_.data(), outputs_.size(), outputs_.data()));
}

}  // namespace headwise::bench

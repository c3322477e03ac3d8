// Context. Door: include/headwise/context.h.
#include "headwise/context.h"

#include <cstdlib>
#include <thread>
#include <utility>

#include "headwise/backend/cpu/isa.h"
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/backend/device_backend.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int kMaxThreads = 1024;

int ChooseThreads(int asked) {
  if (asked < 0 || asked > kMaxThreads) {
    throw Error(ErrorCode::kInvalidArgument,
                {"context", "threads between 0 and 1024", std::to_string(asked),
                 "0 takes every core"});
  }
  if (asked > 0) return asked;
  if (const char* text = std::getenv("HEADWISE_THREADS")) {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 1 || value > kMaxThreads) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"context", "HEADWISE_THREADS between 1 and 1024", text,
                   "unset it to use every core"});
    }
    return static_cast<int>(value);
  }
  const unsigned cores = std::thread::hardware_concurrency();
  return cores > 0 ? static_cast<int>(cores) : 1;
}

}  // namespace

Context::Context(ContextOptions options)
    : options_(std::move(options)),
      pool_(std::make_unique<ThreadPool>(ChooseThreads(options_.threads))),
      workspace_(std::make_unique<Workspace>()),
      backend_(MakeBackend(options_.device, options_.stream)) {
  ApplyIsaCap();
  if (options_.implementations.empty()) {
    if (const char* text = std::getenv("HEADWISE_IMPL")) {
      options_.implementations = text;
    }
  }
}

Context::~Context() = default;

int Context::threads() const { return pool_->threads(); }
Device Context::device() const { return options_.device; }
void Context::Synchronize() { backend_->Synchronize(); }
void* Context::stream() const { return backend_->queue(); }
void Context::WaitFor(void* stream) { backend_->WaitFor(stream); }
void Context::MakeWait(void* stream) { backend_->MakeWait(stream); }
void Context::SynchronizeDevice() { backend_->SynchronizeDevice(); }

std::string_view Context::PreferredImplementation(std::string_view op) const {
  std::string_view rest = options_.implementations;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"context", "implementations as operator:name[,…]",
                   std::string(entry), "e.g. attention:reference"});
    }
    if (entry.substr(0, colon) == op) return entry.substr(colon + 1);
  }
  return {};
}

size_t Context::PeakScratchBytes() const { return workspace_->peak_bytes(); }
void Context::ResetPeakScratch() { workspace_->ResetPeak(); }

}  // namespace headwise

// The part of ONNX Runtime's C interface that we call. The library hands out
// one table of function pointers whose order is frozen (entries 0 to 101 since
// version 1 of the interface), so slots are enough and no header is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace headwise::bench {

class OnnxRuntime {
 public:
  // Loads the shared library. Throws Error(kNotFound) when it is not there and
  // Error(kUnsupported) when it is not what we know.
  explicit OnnxRuntime(const std::filesystem::path& library);
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const std::string& version() const { return version_; }

  // The function in a slot of the table.
  template <typename Function>
  Function* Slot(int index) const {
    return reinterpret_cast<Function*>(table_[index]);
  }
  // Throws Error(kUnsupported) with the library's message for a failed call.
  void Check(void* status) const;
  void* environment() const { return environment_; }

 private:
  void* const* table_ = nullptr;
  void* environment_ = nullptr;
  std::string version_;
};

// Memory that a session reads or writes, in place.
struct OnnxTensor {
  std::string name;
  void* data = nullptr;
  size_t bytes = 0;
  std::vector<int64_t> shape;
  int type = 1;  // OnnxType
};

// A model with its inputs and outputs bound once; Run() allocates nothing of
// ours. Graph optimisation, memory arena and thread spinning are on: the
// library's own best settings.
class OnnxSession {
 public:
  OnnxSession(std::shared_ptr<const OnnxRuntime> runtime,
              const std::string& model, int threads,
              const std::vector<OnnxTensor>& inputs,
              const std::vector<OnnxTensor>& outputs);
  ~OnnxSession();
  OnnxSession(const OnnxSession&) = delete;
  OnnxSession& operator=(const OnnxSession&) = delete;

  void Run();

 private:
  void* Bind(const OnnxTensor& tensor);
  void Release();

  std::shared_ptr<const OnnxRuntime> runtime_;
  void* memory_info_ = nullptr;
  void* session_ = nullptr;
  std::vector<std::string> names_;
  std::vector<const char*> input_names_, output_names_;
  std::vector<void*> inputs_, outputs_;
};

}  // namespace headwise::bench

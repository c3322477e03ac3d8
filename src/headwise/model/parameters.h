// The parameters of a model in training: owned f32 values, each with its
// gradient, under the checkpoint's names. A model built from them (BuildModel)
// reads the values where they lie.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/config.h"
#include "headwise/model/weights.h"
#include "headwise/tensor.h"

namespace headwise {

struct Initialisation {
  uint64_t seed = 1;
  float deviation = 0.02f;  // of Start::Normal
  // Divide the matrices that write to the residual stream by √(2·layers).
  bool scale_residual = true;
};

// Where parameters lie, and what their model computes in.
struct StorePlace {
  Device device = {};
  // A half: products read copies of the f32 values, rounded by Round.
  DType compute = DType::kF32;
};

// One thread at a time. Values are changed between runs, never during one.
class ParameterStore : public WeightSource {
 public:
  static constexpr int64_t kAlignment = 64 / sizeof(float);

  // Tensors end to end, each at a multiple of kAlignment, and 0 between them.
  // The first buffer has all that the file holds, or that a model of the
  // configuration asks for; further ones what is asked for besides, such as
  // the head of another task.
  struct Buffer {
    Tensor value;      // f32 [N]
    Tensor gradient;   // f32 [N]; empty until one is asked for
    Tensor compute;    // [N] of a half; empty where the model computes in f32
    int64_t used = 0;  // of N
  };
  struct Entry {
    TensorView value;     // f32
    TensorView gradient;  // of the same shape; null: it is not trained
    bool frozen = false;  // part of a model, and stays as it is
    size_t buffer = 0;    // where both lie,
    int64_t offset = 0;   // from this element on
  };

  // Copies of a checkpoint's tensors. Throws as Safetensors::Open does.
  static std::shared_ptr<ParameterStore> Load(
      const std::filesystem::path& folder, const StorePlace& place = {});
  // Made while a model of this configuration is built from them. A value
  // depends on the seed and its name alone.
  static std::shared_ptr<ParameterStore> Fresh(const ModelConfig& config,
                                               const Initialisation& how,
                                               const StorePlace& place = {});
  explicit ParameterStore(const StorePlace& place = {});

  std::string Describe() const override { return where_; }
  ConstTensorView Find(const std::string& name) const override;
  std::vector<std::string> Names() const override;
  // Only what a model asks for is trained: the gradient is made here.
  TensorView Gradient(const std::string& name) const override;
  bool Varies(const std::string& name) const override;
  ConstTensorView Compute(const std::string& name) const override;
  bool Makes(const std::string& name) const override;
  ConstTensorView Provide(const std::string& name,
                          std::span<const int64_t> shape,
                          const Start& start) const override;

  // From now on a loaded store too makes what is asked for and absent, such
  // as the head of another task: all of it, or what begins with `prefix`.
  void AllowNew(const ModelConfig& config, const std::string& prefix = "") {
    fresh_ = true;
    fresh_prefix_ = prefix;
    config_ = config;
  }

  // These, which the store holds, are not trained: models built from now on
  // give them no gradient, and an optimizer made from now on leaves them.
  void Freeze(const std::set<std::string>& names);

  // By name.
  std::map<std::string, Entry>& entries() { return entries_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  std::vector<Buffer>& buffers() { return buffers_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  // Numbers in the entries that a model asked for, frozen or not.
  int64_t Count() const;
  // The type that a model of these parameters computes in.
  DType compute() const { return compute_; }

  void ClearGradients(Context& context);
  // What products read follows the values: after each change of them.
  void Round(Context& context);

  // model.safetensors, whole or not at all, in f32 or bf16.
  void Save(const std::filesystem::path& file, DType type) const;

 private:
  // Zeros under a new name.
  Entry& Add(const std::string& name, const Shape& shape);
  void Make(const Entry& entry, const std::string& name, const Start& start);
  void AddBuffer(int64_t size) const;

  std::string where_ = "new weights";
  mutable Context context_;  // to fill what is made
  DType compute_ = DType::kF32;
  // A model's builder asks for weights through a constant source.
  mutable std::vector<Buffer> buffers_;
  mutable std::map<std::string, Entry> entries_;
  bool fresh_ = false;
  std::string fresh_prefix_;
  ModelConfig config_;
  Initialisation how_;
};

}  // namespace headwise

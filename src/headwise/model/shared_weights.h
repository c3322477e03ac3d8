// Weights of a folder's files and what is made of them, once for all who have
// the same files open in this process.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "headwise/format/safetensors.h"
#include "headwise/model/model.h"
#include "headwise/model/weights.h"

namespace headwise {

// Any number of threads may use it.
class SharedWeights : public WeightSource {
 public:
  // The same object as long as somebody holds it and the files are what they
  // were. Throws as Safetensors::Open does.
  static std::shared_ptr<const SharedWeights> Open(
      const std::filesystem::path& folder);

  explicit SharedWeights(Safetensors file) : file_(std::move(file)) {}

  std::string Describe() const override { return file_.where(); }
  ConstTensorView Find(const std::string& name) const override {
    return file_.Stored(name);
  }
  bool Mapped() const override { return true; }
  std::vector<std::string> Names() const override;

  // Their ModelHash (model_hash.h), which reads them once.
  const std::string& hash() const;

  // The model that was made of them for `key` and that somebody still holds,
  // else what `make` gives.
  using MakeModel = std::function<std::shared_ptr<const Model>()>;
  std::shared_ptr<const Model> ModelFor(const std::string& key,
                                        const MakeModel& make) const;

 private:
  Safetensors file_;
  mutable std::once_flag hashed_;
  mutable std::string hash_;
  mutable std::mutex mutex_;  // over what follows
  mutable std::map<std::string, std::weak_ptr<const Model>> models_;
};

}  // namespace headwise

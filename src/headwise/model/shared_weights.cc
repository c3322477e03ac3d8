// The weights that this process has open. Door: shared_weights.h.
#include "headwise/model/shared_weights.h"

#include <utility>

#include "headwise/model/model_hash.h"

namespace headwise {
namespace {

// Where the files are and what they were when they were opened.
using FilesKey = std::pair<std::string, std::vector<FileIdentity>>;

struct OpenFiles {
  std::mutex mutex;
  std::map<FilesKey, std::weak_ptr<const SharedWeights>> weights;
};

// Never destroyed: threads may open models while the process ends.
OpenFiles& TheOpenFiles() {
  static auto* const files = new OpenFiles;
  return *files;
}

// Forgets what nobody holds any more.
template <typename Map>
void Prune(Map& map) {
  std::erase_if(map, [](const auto& entry) { return entry.second.expired(); });
}

}  // namespace

std::shared_ptr<const SharedWeights> SharedWeights::Open(
    const std::filesystem::path& folder) {
  Safetensors file = Safetensors::Open(folder);
  FilesKey key = {std::filesystem::canonical(file.where()).string(),
                  file.Identities()};
  OpenFiles& open = TheOpenFiles();
  const std::lock_guard lock(open.mutex);
  if (auto held = open.weights[key].lock()) return held;
  Prune(open.weights);
  auto made = std::make_shared<const SharedWeights>(std::move(file));
  open.weights[std::move(key)] = made;
  return made;
}

std::vector<std::string> SharedWeights::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, view] : file_.tensors()) names.push_back(name);
  return names;
}

const std::string& SharedWeights::hash() const {
  std::call_once(hashed_, [&] { hash_ = ModelHash(*this); });
  return hash_;
}

std::shared_ptr<const Model> SharedWeights::ModelFor(
    const std::string& key, const MakeModel& make) const {
  const std::lock_guard lock(mutex_);
  if (auto held = models_[key].lock()) return held;
  Prune(models_);
  std::shared_ptr<const Model> made = make();
  models_[key] = made;
  return made;
}

}  // namespace headwise

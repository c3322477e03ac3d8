// Door: keep.h.
#include "headwise/api/keep.h"

#include <utility>

#include "headwise/dist/pack.h"
#include "headwise/model/head_ref.h"

namespace headwise {

std::optional<KeptWork> KeptFor(Transformer& model, const char* where,
                                const PartialWork& partial, std::string text,
                                std::string settings) {
  if (!partial.file) {
    if (!partial.resume) return {};
    throw Error(ErrorCode::kInvalidArgument,
                {"partial", "the file to go on with", "none",
                 "`partial` names it; or leave out `resume`"});
  }
  if (!model.state().is_first()) return {};
  // One device's and type's numbers do not go on with another's.
  if (!model.context().device().is_cpu()) {
    settings += std::string(", ") + Name(model.type()) + " on a GPU";
  }
  return std::make_optional<KeptWork>(
      where, partial, [&model, text, key = std::string(where) + settings] {
        return KeptKey{model.hash(), text, key};
      });
}

std::string ClosedKey(std::span<const HeadRef> closed, const HeadMeans& means) {
  std::string key;
  for (const HeadRef& head : closed) key += ToString(head) + " ";
  if (means == nullptr) return key;
  dist::Packer bytes;
  for (const auto& [site, mean] : *means) {
    bytes.Put(site);
    bytes.Put(
        std::vector<float>(mean.As<float>(), mean.As<float>() + mean.size()));
  }
  return key + KeyOf(bytes.Take());
}

}  // namespace headwise

// One process: nobody to talk to. Door: dist/group.h.
#include "headwise/dist/group.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

class SingleGroup : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void Post(int to, Channel, std::string) override { Refuse(to); }
  std::string Take(int from, Channel) override { Refuse(from); }
  std::optional<Message> Poll(Channel, double) override { return {}; }
  void Leave() override {}
  void Abort(int) noexcept override {}

 private:
  [[noreturn]] static void Refuse(int rank) {
    throw Error(ErrorCode::kInternal,
                {"ranks", "one process", "rank " + std::to_string(rank), ""});
  }
};

}  // namespace

std::unique_ptr<Group> MakeSingleGroup() {
  return std::make_unique<SingleGroup>();
}

}  // namespace headwise::dist

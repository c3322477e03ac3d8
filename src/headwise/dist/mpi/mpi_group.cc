// Ranks that OpenMPI started. Only messages of bytes are asked of it: the order
// in which values are added is ours, and who waits sleeps instead of spinning
// and looks whether the other is still there. Door: dist/group.h.
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <future>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/dist/group.h"
#include "headwise/dist/mpi/library.h"
#include "headwise/dist/pack.h"
#include "headwise/dist/wait_limit.h"
#include "headwise/error.h"

namespace headwise::dist {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Naps while waiting, from the first to the last: short messages come at once,
// and long waits leave the core to who works.
constexpr Seconds kFirstNap{20e-6}, kLongestNap{1e-3};
// No naps for so long after something moved.
constexpr Seconds kWatch{200e-6};
// A message goes as its size and in pieces, so that both sides see it move:
// OpenMPI carries a large one on while it is called, and who naps does not
// call.
constexpr size_t kPiece = size_t{1} << 17;
// Between two looks at who is still there.
constexpr Seconds kLook{1};

int TagOf(Channel channel) { return static_cast<int>(channel) + 1; }

// Where a process is, so that others on the same machine can look after it.
struct Place {
  std::string machine;  // its name and its numbering of processes
  pid_t process = 0;
};

Place Here() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  char space[64] = {};
  (void)!readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
  return {std::string(name) + " " + space, getpid()};
}

// MPI_Init waits for all ranks, and nothing ends it where one never calls it:
// it runs on a thread that is left to itself then. Returns its code and the
// level of threads that it gives.
std::pair<int, int> InitWithin(const MpiLibrary& mpi, const WaitLimit& limit) {
  std::packaged_task<std::pair<int, int>()> init([init = mpi.init_thread] {
    int given = 0;
    const int code = init(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given);
    return std::pair(code, given);
  });
  std::future<std::pair<int, int>> done = init.get_future();
  std::thread(std::move(init)).detach();
  if (limit.is_none() ||
      done.wait_for(Seconds(limit.seconds())) == std::future_status::ready) {
    return done.get();
  }
  throw Error(ErrorCode::kIo,
              {"ranks",
               "all of them to join within " +
                   std::to_string(std::llround(limit.seconds())) + " s",
               "one that did not: it ended at once, or runs another program",
               HowToWait()});
}

class MpiGroup : public Group {
 public:
  explicit MpiGroup(const Launch& launch)
      : mpi_(MpiLibrary::Load()),
        limit_(RankWaitSeconds(WaitLimit::kJoinSeconds)) {
    const auto [code, given] = InitWithin(mpi_, limit_);
    Require(code);
    if (given < MPI_THREAD_SERIALIZED) {
      throw Error(ErrorCode::kUnsupported,
                  {"ranks", "an OpenMPI that threads may call in turn",
                   "thread level " + std::to_string(given),
                   "install one that was built with threads"});
    }
    Require(mpi_.set_errhandler(mpi_.world, mpi_.errors_return));
    Require(mpi_.comm_rank(mpi_.world, &rank_));
    Require(mpi_.comm_size(mpi_.world, &size_));
    if (size_ != launch.size) {
      throw Error(
          ErrorCode::kUnsupported,
          {"ranks", std::to_string(launch.size) + " processes under OpenMPI",
           std::to_string(size_) + " that know each other",
           "start them with OpenMPI's own mpirun, or srun --mpi=pmix"});
    }
    MeetOthers();
    limit_ = WaitLimit(RankWaitSeconds(WaitLimit::kSeconds));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Post(int to, Channel channel, std::string bytes) override {
    Advance();
    Sent& sent = outbox_.emplace_back();
    sent.bytes = std::move(bytes);
    sent.size = sent.bytes.size();
    const auto send = [&](const void* data, size_t size) {
      Require(mpi_.isend(data, static_cast<int>(size), mpi_.byte, to,
                         TagOf(channel), mpi_.world,
                         &sent.parts.requests.emplace_back()));
    };
    send(&sent.size, sizeof(sent.size));
    ForPieces(sent.bytes, send);
  }

  std::string Take(int from, Channel channel) override {
    std::optional<Message> message;
    Wait(from, [&] {
      message = Arrived(from, channel);
      return message.has_value();
    });
    return std::move(message->bytes);
  }

  std::optional<Message> Poll(Channel channel, double seconds) override {
    const Clock::time_point begun = Clock::now();
    std::optional<Message> message;
    Wait(kAny, [&] {
      message = Arrived(kAny, channel);
      return message || Clock::now() - begun >= Seconds(seconds);
    });
    return message;
  }

  void Leave() override {
    if (!is_first()) limit_ = WaitLimit(0);
    Barrier();
    Wait(kAny, [&] {
      Advance();
      return outbox_.empty();
    });
    Require(mpi_.finalize());
  }

  void Abort(int code) noexcept override { mpi_.abort(mpi_.world, code); }

 private:
  static constexpr int kAny = -1;

  // What goes to one rank or comes from it, in order.
  struct Parts {
    std::vector<MPI_Request> requests;
    size_t gone = 0;
  };
  struct Sent {
    size_t size = 0;
    std::string bytes;
    Parts parts;
  };

  template <typename Each>
  static void ForPieces(std::string& bytes, Each&& each) {
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      each(bytes.data() + at, std::min(kPiece, bytes.size() - at));
    }
  }

  void Require(int code) const {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int size = 0;
    mpi_.error_string(code, text, &size);
    throw Error(ErrorCode::kIo, {"rank " + std::to_string(rank_),
                                 "OpenMPI to carry messages", text, ""});
  }

  void MeetOthers() {
    const Place here = Here();
    Packer packer;
    packer.Put(here.machine);
    packer.Put(here.process);
    for (const std::string& packed : AllGather(packer.Take())) {
      Unpacker unpacker(packed);
      Place place;
      place.machine = unpacker.GetString();
      place.process = unpacker.Get<pid_t>();
      places_.push_back(place.machine == here.machine ? place : Place());
    }
  }

  // Whether all of them have moved. OpenMPI moves on in calls only.
  bool AreThrough(Parts& parts) {
    for (; parts.gone < parts.requests.size(); ++parts.gone) {
      int done = 0;
      Require(mpi_.test(&parts.requests[parts.gone], &done, MPI_STATUS_IGNORE));
      if (done == 0) return false;
      moved_ = true;
    }
    return true;
  }

  // What was sent is forgotten once it is gone.
  void Advance() {
    std::erase_if(outbox_, [&](Sent& sent) { return AreThrough(sent.parts); });
  }

  std::optional<Message> Arrived(int from, Channel channel) {
    Advance();
    int there = 0;
    MPI_Message handle = nullptr;
    MPI_Status status = {};
    Require(mpi_.improbe(from == kAny ? MPI_ANY_SOURCE : from, TagOf(channel),
                         mpi_.world, &there, &handle, &status));
    if (there == 0) return {};
    limit_.Heard();
    Message message = {status.MPI_SOURCE};
    size_t size = 0;
    Parts parts;
    Require(mpi_.imrecv(&size, sizeof(size), mpi_.byte, &handle,
                        &parts.requests.emplace_back()));
    WaitFor(message.from, parts);
    message.bytes.resize(size);
    ForPieces(message.bytes, [&](char* data, size_t bytes) {
      Require(mpi_.irecv(data, static_cast<int>(bytes), mpi_.byte, message.from,
                         TagOf(channel), mpi_.world,
                         &parts.requests.emplace_back()));
    });
    WaitFor(message.from, parts);
    return message;
  }

  void WaitFor(int from, Parts& parts) {
    Wait(from, [&] {
      Advance();
      return AreThrough(parts);
    });
  }

  template <typename Done>
  void Wait(int whom, Done&& done) {
    Seconds nap = kFirstNap;
    Clock::time_point looked = Clock::now(), moved = looked, before = looked;
    while (!done()) {
      const Clock::time_point now = Clock::now();
      if (moved_) {
        moved = now;
        limit_.Heard();
      }
      limit_.Add(whom, Seconds(now - std::exchange(before, now)).count());
      if (now - moved < kWatch) {
        std::this_thread::yield();
        nap = kFirstNap;
      } else {
        std::this_thread::sleep_for(nap);
        nap = std::min(2 * nap, kLongestNap);
      }
      moved_ = false;
      if (now - looked < kLook) continue;
      LookAfter(whom);
      looked = now;
    }
  }

  // A launcher ends all ranks when one dies, most of them; this is for the
  // others, and says who it was.
  void LookAfter(int whom) const {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_ || (whom != kAny && whom != rank)) continue;
      const Place& place = places_.empty() ? Place() : places_[rank];
      if (place.process == 0 || kill(place.process, 0) == 0 || errno != ESRCH) {
        continue;
      }
      throw Error(
          ErrorCode::kIo,
          {"rank " + std::to_string(rank), "it to go on",
           "that its process " + std::to_string(place.process) + " has ended",
           "the last checkpoint is whole: --resume goes on from it, on any "
           "number of ranks"});
    }
  }

  MpiLibrary mpi_;
  WaitLimit limit_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<Place> places_;  // process 0: on another machine
  std::list<Sent> outbox_;
  bool moved_ = false;  // since a wait last looked
};

}  // namespace

std::unique_ptr<Group> MakeMpiGroup(const Launch& launch) {
  return std::make_unique<MpiGroup>(launch);
}

bool HasMpi() { return true; }

}  // namespace headwise::dist

# cmake -DINPUT=file -DOUTPUT=x.cc -DHEADER=x.h -DFUNCTION=Name -P embed.cmake
# A C++ source that defines `std::string_view headwise::Name()`: the bytes of a
# file. The header declares it.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
# Lines that editors and compilers like.
string(REGEX REPLACE "(................................................................................)"
       "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made by cmake/embed.cmake.
#include \"${HEADER}\"

namespace headwise {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::string_view ${FUNCTION}() {
  return {reinterpret_cast<const char*>(kBytes), sizeof kBytes};
}

}  // namespace headwise
")

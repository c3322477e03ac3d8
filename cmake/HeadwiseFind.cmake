# headwise_find(NAME header library): the imported target headwise_found::NAME
# of a library that brings no CMake file of its own, or NAME added to
# headwise_missing. Read by our build, and by find_package(headwise) where the
# static library is installed, so that no path of ours is in what we install.
function(headwise_find name header library)
  if(TARGET headwise_found::${name})
    return()
  endif()
  find_path(HEADWISE_${name}_INCLUDE ${header})
  find_library(HEADWISE_${name}_LIBRARY ${library})
  mark_as_advanced(HEADWISE_${name}_INCLUDE HEADWISE_${name}_LIBRARY)
  if(NOT HEADWISE_${name}_INCLUDE OR NOT HEADWISE_${name}_LIBRARY)
    set(headwise_missing ${headwise_missing} ${name} PARENT_SCOPE)
    return()
  endif()
  add_library(headwise_found::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(headwise_found::${name} PROPERTIES
    IMPORTED_LOCATION "${HEADWISE_${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${HEADWISE_${name}_INCLUDE}")
endfunction()

# What everything but the operator stands on. As a macro, for headwise_missing.
macro(headwise_find_all)
  # The tokenizers' rules.
  headwise_find(pcre2 pcre2.h pcre2-8)
  headwise_find(utf8proc utf8proc.h utf8proc)
  headwise_find(sentencepiece sentencepiece_processor.h sentencepiece)
  # Hashes of models and windows.
  headwise_find(xxhash xxhash.h xxhash)
  # Compressed text.
  headwise_find(zlib zlib.h z)
  headwise_find(lzma lzma.h lzma)
  headwise_find(zstd zstd.h zstd)
endmacro()

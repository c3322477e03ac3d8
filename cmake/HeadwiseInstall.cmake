# What `cmake --install` puts where, in three components (a fourth, `python`, is
# in python/CMakeLists.txt): `program` (with what
# its demo reads), `library` (the shared libraries) and `headers` (all that it
# takes to compile against them: headers, find_package, pkg-config).
# Our dependencies stay ours: only who links a static library must have them.
include(CMakePackageConfigHelpers)

# headwise_install_built(COMPONENT target): `cmake --install` builds nothing by
# itself, and ./headwise builds the program alone. What is missing is built now,
# out of objects that mostly are there.
function(headwise_install_built component target)
  install(CODE "
    if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
      message(STATUS \"Building: ${target}\")
      execute_process(
        COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\"
                --config $<CONFIG> --target ${target}
        COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT ${component})
endfunction()

set(libraries headwise_operator)
if(TARGET headwise)
  list(APPEND libraries headwise)
endif()
if(HEADWISE_STATIC)
  set(library_component headers)
else()
  set(library_component library)
endif()
foreach(library ${libraries})
  headwise_install_built(${library_component} ${library})
endforeach()
install(TARGETS ${libraries} EXPORT headwiseTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT library NAMELINK_COMPONENT headers
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT headers)

if(HEADWISE_BUILD_PROGRAM)
  headwise_install_built(program headwise_app)
  install(TARGETS headwise_app
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  # What the demo reads.
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/assets/novels"
                    "${PROJECT_SOURCE_DIR}/assets/novels-one-head"
                    "${PROJECT_SOURCE_DIR}/assets/encoder"
                    "${PROJECT_SOURCE_DIR}/assets/planted"
                    "${PROJECT_SOURCE_DIR}/assets/coref"
                    "${PROJECT_SOURCE_DIR}/assets/text"
                    "${PROJECT_SOURCE_DIR}/assets/treebank"
    DESTINATION ${CMAKE_INSTALL_DATADIR}/headwise COMPONENT program)
endif()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/headwise"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers
  FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headwise)
install(EXPORT headwiseTargets NAMESPACE headwise:: DESTINATION ${package_dir}
  COMPONENT headers)
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/headwiseConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/headwiseConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/headwiseConfig.cmake"
  "${PROJECT_BINARY_DIR}/headwiseConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/HeadwiseFind.cmake"
  DESTINATION ${package_dir} COMPONENT headers)

# headwise_pkg_config(NAME LIBRARY description; -l of a static library…): paths
# are told from where the file lies, so that an installed tree can be moved.
function(headwise_pkg_config name library description)
  set(pc_name ${name})
  set(pc_library ${library})
  set(pc_description "${description}")
  set(pc_private "")
  if(HEADWISE_STATIC)
    list(JOIN ARGN " " pc_private)
  endif()
  file(RELATIVE_PATH pc_prefix
    "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/headwise.pc.in"
                 "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT headers)
endfunction()
set(operator_needs -lfmt -lhwy -lstdc++ -lm -ldl -pthread)
headwise_pkg_config(headwise-operator headwise_operator
  "The attention operator and MultiHeadAttention" ${operator_needs})
if(TARGET headwise)
  headwise_pkg_config(headwise headwise "${PROJECT_DESCRIPTION}"
    -lheadwise_operator -lpcre2-8 -lutf8proc -lsentencepiece -lxxhash -lz -llzma
    -lzstd ${operator_needs})
endif()

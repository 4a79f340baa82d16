# SPDX-License-Identifier: Apache-2.0

# shardmill_add_library(NAME HEADERS a.h ... SOURCES a.cc ... DEPS ... PRIVATE_DEPS ...)
#
# Adds shardmill::NAME. Headers are named from the calling folder; users and we write
# #include <shardmill/FOLDER/a.h>. In the build tree that path is a generated header of one line,
# so only the headers listed here can be reached through it, and the repository's root is on
# nobody's include path.
function(shardmill_add_library name)
  cmake_parse_arguments(ARG "" "" "HEADERS;SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target shardmill_${name})
  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(shardmill::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME shardmill_${name})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(
    ${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
              PRIVATE ${PROJECT_SOURCE_DIR})  # internal/ headers: "formats/internal/x.h"
  target_link_libraries(${target} PUBLIC ${ARG_DEPS}
                        PRIVATE ${ARG_PRIVATE_DEPS} $<BUILD_INTERFACE:shardmill_warnings>)
  set_property(GLOBAL APPEND PROPERTY SHARDMILL_LIBRARIES ${target})

  foreach(header IN LISTS ARG_HEADERS)
    cmake_path(ABSOLUTE_PATH header OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE inside)
    set(forward ${PROJECT_BINARY_DIR}/include/shardmill/${inside})
    file(CONFIGURE OUTPUT ${forward} CONTENT "#include \"${path}\"\n")
    cmake_path(GET inside PARENT_PATH folder)
    install(FILES ${path} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/shardmill/${folder})
    list(APPEND forwards ${forward})
  endforeach()
  # Not exported: only there so that all_verify_interface_header_sets compiles each header alone.
  add_library(${target}_headers INTERFACE)
  target_sources(${target}_headers INTERFACE FILE_SET public TYPE HEADERS
                 BASE_DIRS ${PROJECT_BINARY_DIR}/include FILES ${forwards})
  target_link_libraries(${target}_headers INTERFACE ${target})
endfunction()

# Installs all libraries as the package `shardmill`: find_package(shardmill), shardmill::loader.
function(shardmill_install_package)
  include(CMakePackageConfigHelpers)
  get_property(targets GLOBAL PROPERTY SHARDMILL_LIBRARIES)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/shardmill)
  install(TARGETS ${targets} EXPORT shardmillTargets)
  install(EXPORT shardmillTargets NAMESPACE shardmill:: DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/shardmillConfigVersion.cmake
                                   COMPATIBILITY SameMinorVersion)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/shardmillConfig.cmake.in
                                ${PROJECT_BINARY_DIR}/shardmillConfig.cmake
                                INSTALL_DESTINATION ${package_dir})
  install(FILES ${PROJECT_BINARY_DIR}/shardmillConfig.cmake
                ${PROJECT_BINARY_DIR}/shardmillConfigVersion.cmake
                ${PROJECT_SOURCE_DIR}/cmake/ShardmillTorch.cmake
          DESTINATION ${package_dir})
endfunction()

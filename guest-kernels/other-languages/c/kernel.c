// y = x w + b: a vertex kernel in C.
//
// x [n, k], w [k, m], b [m], y [n, m]. With dy the gradient of y: dw = x^T dy, db = column sums of dy, dx = dy w^T.
// Both passes are one call of the host's linear algebra each; no value of a matrix is copied into the kernel.
//
// The names are those of bindings/vertex_kernel.h, the contract in C, which `eciton kernel build` writes. A function
// that can fail returns true for success and writes to `err` otherwise. What a function is given is its own: lists are
// freed, handles dropped. What it returns is freed for it, so it is allocated, never a literal.

#include "bindings/vertex_kernel.h"

#include <stdlib.h>
#include <string.h>

typedef eciton_kernel_types_error_t error_t;
typedef exports_eciton_kernel_vertex_list_own_matrix_t matrices_t;
typedef exports_eciton_kernel_vertex_list_own_out_t outs_t;
typedef exports_eciton_kernel_vertex_list_option_own_out_t option_outs_t;

// A configured layer: it holds its attributes and nothing that a task left behind.
struct exports_eciton_kernel_vertex_layer_t {
  uint32_t columns;       // k
  uint32_t out_features;  // m
};

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (memory == NULL) abort();
  return memory;
}

static bool refuse(error_t *err, uint8_t tag, const char *text) {
  err->tag = tag;
  vertex_kernel_string_dup(&err->val.argument, text);
  return false;
}

static vertex_kernel_list_u32_t extents(uint32_t one, uint32_t two) {
  vertex_kernel_list_u32_t list = {allocate(2, sizeof(uint32_t)), two == 0 ? 1 : 2};
  list.ptr[0] = one;
  list.ptr[1] = two;
  return list;
}

static void drop_matrices(matrices_t *list) {
  for (size_t i = 0; i < list->len; i++) eciton_kernel_tensors_matrix_drop_own(list->ptr[i]);
  exports_eciton_kernel_vertex_list_own_matrix_free(list);
}

static void drop_outs(outs_t *list) {
  for (size_t i = 0; i < list->len; i++) eciton_kernel_tensors_out_drop_own(list->ptr[i]);
  exports_eciton_kernel_vertex_list_own_out_free(list);
}

static void drop_option_outs(option_outs_t *list) {
  for (size_t i = 0; i < list->len; i++)
    if (list->ptr[i].is_some) eciton_kernel_tensors_out_drop_own(list->ptr[i].val);
  exports_eciton_kernel_vertex_list_option_own_out_free(list);
}

// The attributes and the layer.

void exports_eciton_kernel_vertex_attributes(exports_eciton_kernel_vertex_list_attribute_spec_t *ret) {
  ret->len = 1;
  ret->ptr = allocate(1, sizeof *ret->ptr);
  vertex_kernel_string_dup(&ret->ptr[0].name, "out-features");
  vertex_kernel_string_dup(&ret->ptr[0].meaning, "values in a row of the result");
  ret->ptr[0].default_.is_some = false;
}

static bool open(const vertex_kernel_list_list_u32_t *inputs,
                 const exports_eciton_kernel_vertex_list_attribute_t *attributes,
                 exports_eciton_kernel_vertex_own_layer_t *ret, error_t *err) {
  if (inputs->len != 1 || inputs->ptr[0].len != 1)
    return refuse(err, ECITON_KERNEL_TYPES_ERROR_ARGUMENT, "one input with one extent a row is taken");
  const char name[] = "out-features";
  int64_t out_features = 0;
  for (size_t i = 0; i < attributes->len; i++) {
    const exports_eciton_kernel_vertex_attribute_t *given = &attributes->ptr[i];
    bool named = given->name.len == sizeof name - 1 && memcmp(given->name.ptr, name, sizeof name - 1) == 0;
    if (named && given->value.tag == ECITON_KERNEL_TYPES_VALUE_INTEGER) out_features = given->value.val.integer;
  }
  if (out_features < 1 || out_features > UINT32_MAX)
    return refuse(err, ECITON_KERNEL_TYPES_ERROR_ARGUMENT, "out-features is a whole number from 1 to 2^32 - 1");
  exports_eciton_kernel_vertex_layer_t *layer = allocate(1, sizeof *layer);
  layer->columns = inputs->ptr[0].ptr[0];
  layer->out_features = (uint32_t)out_features;
  *ret = exports_eciton_kernel_vertex_layer_new(layer);
  return true;
}

bool exports_eciton_kernel_vertex_static_layer_open(vertex_kernel_list_list_u32_t *inputs,
                                                    exports_eciton_kernel_vertex_list_attribute_t *attributes,
                                                    exports_eciton_kernel_vertex_own_layer_t *ret, error_t *err) {
  bool opened = open(inputs, attributes, ret, err);
  vertex_kernel_list_list_u32_free(inputs);
  exports_eciton_kernel_vertex_list_attribute_free(attributes);
  return opened;
}

void exports_eciton_kernel_vertex_layer_destructor(exports_eciton_kernel_vertex_layer_t *layer) { free(layer); }

void exports_eciton_kernel_vertex_method_layer_signature(exports_eciton_kernel_vertex_borrow_layer_t self,
                                                         exports_eciton_kernel_vertex_signature_t *ret) {
  memset(ret, 0, sizeof *ret);
  ret->inputs.len = 1;
  ret->inputs.ptr = allocate(1, sizeof *ret->inputs.ptr);
  vertex_kernel_string_dup(&ret->inputs.ptr[0].name, "x");
  ret->inputs.ptr[0].extents = extents(self->columns, 0);

  ret->parameters.len = 2;
  ret->parameters.ptr = allocate(2, sizeof *ret->parameters.ptr);
  vertex_kernel_string_dup(&ret->parameters.ptr[0].name, "weight");
  ret->parameters.ptr[0].shape = extents(self->columns, self->out_features);
  ret->parameters.ptr[0].initialiser.tag = ECITON_KERNEL_TYPES_INITIALISER_GLOROT_UNIFORM;
  vertex_kernel_string_dup(&ret->parameters.ptr[1].name, "bias");
  ret->parameters.ptr[1].shape = extents(self->out_features, 0);
  ret->parameters.ptr[1].initialiser.tag = ECITON_KERNEL_TYPES_INITIALISER_ZEROS;

  ret->outputs.len = 1;
  ret->outputs.ptr = allocate(1, sizeof *ret->outputs.ptr);
  vertex_kernel_string_dup(&ret->outputs.ptr[0].name, "y");
  ret->outputs.ptr[0].extents = extents(self->out_features, 0);

  ret->backward_needs = EXPORTS_ECITON_KERNEL_VERTEX_NEEDS_INPUTS;
}

// The passes.

static eciton_kernel_tensors_borrow_matrix_t matrix(const matrices_t *list, size_t at) {
  return eciton_kernel_tensors_borrow_matrix(list->ptr[at]);
}

// No bias, activation or dropout on the way in; b on the way out.
static const eciton_kernel_linalg_prologue_t BEFORE = {.activation.tag = ECITON_KERNEL_TYPES_ACTIVATION_IDENTITY};

static eciton_kernel_linalg_epilogue_t after(const matrices_t *parameters) {
  eciton_kernel_linalg_epilogue_t after = {.activation.tag = ECITON_KERNEL_TYPES_ACTIVATION_IDENTITY};
  after.bias.is_some = true;
  after.bias.val = matrix(parameters, 1);
  return after;
}

bool exports_eciton_kernel_vertex_method_layer_forward(exports_eciton_kernel_vertex_borrow_layer_t self,
                                                       exports_eciton_kernel_vertex_task_t *task, matrices_t *inputs,
                                                       matrices_t *parameters, outs_t *outputs, outs_t *kept,
                                                       error_t *err) {
  (void)self, (void)task;
  eciton_kernel_linalg_prologue_t before = BEFORE;
  eciton_kernel_linalg_epilogue_t add_bias = after(parameters);
  bool done = eciton_kernel_linalg_linear(matrix(inputs, 0), &before, matrix(parameters, 0), &add_bias,
                                          eciton_kernel_tensors_borrow_out(outputs->ptr[0]), err);
  drop_matrices(inputs);
  drop_matrices(parameters);
  drop_outs(outputs);
  drop_outs(kept);
  return done;
}

bool exports_eciton_kernel_vertex_method_layer_backward(
    exports_eciton_kernel_vertex_borrow_layer_t self, exports_eciton_kernel_vertex_task_t *task, matrices_t *inputs,
    matrices_t *outputs, matrices_t *kept, matrices_t *parameters, matrices_t *gradients,
    option_outs_t *input_gradients, outs_t *parameter_gradients, error_t *err) {
  (void)self, (void)task;
  eciton_kernel_linalg_prologue_t before = BEFORE;
  eciton_kernel_linalg_epilogue_t add_bias = after(parameters);
  eciton_kernel_tensors_borrow_out_t dx, dw, db;
  bool asked = input_gradients->ptr[0].is_some;
  if (asked) dx = eciton_kernel_tensors_borrow_out(input_gradients->ptr[0].val);
  dw = eciton_kernel_tensors_borrow_out(parameter_gradients->ptr[0]);
  db = eciton_kernel_tensors_borrow_out(parameter_gradients->ptr[1]);
  bool done = eciton_kernel_linalg_linear_backward(matrix(inputs, 0), &before, matrix(parameters, 0), &add_bias, NULL,
                                                   matrix(gradients, 0), asked ? &dx : NULL, NULL, &dw, &db, err);
  drop_matrices(inputs);
  drop_matrices(outputs);
  drop_matrices(kept);
  drop_matrices(parameters);
  drop_matrices(gradients);
  drop_option_outs(input_gradients);
  drop_outs(parameter_gradients);
  return done;
}

// The signature says that there is no loss: the host never calls this.
bool exports_eciton_kernel_vertex_method_layer_loss(
    exports_eciton_kernel_vertex_borrow_layer_t self, exports_eciton_kernel_vertex_task_t *task, matrices_t *inputs,
    matrices_t *parameters, exports_eciton_kernel_vertex_targets_t *targets, exports_eciton_kernel_vertex_own_ids_t rows,
    float weight, exports_eciton_kernel_vertex_own_out_t loss, option_outs_t *input_gradients,
    outs_t *parameter_gradients, error_t *err) {
  abort();
}

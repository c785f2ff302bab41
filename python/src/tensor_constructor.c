/*
 * The constructor of hurray.Tensor (spec 8.3): buffers as bytes, and everything a descriptor says.
 *
 * Three kinds of mistake, in this order: arguments of another type (TypeError); a structure that no
 * buffers could make right (InvalidDescriptorError); buffers that are too small (BufferError).
 */
#include <string.h>

#include "arguments.h"
#include "core.h"

enum {
    BUFFER,
    DTYPE,
    SHAPE,
    DEVICE,
    AUX_BUFFERS,
    LAYOUT,
    QUANTIZATION,
    STATISTICS,
    SHARD,
    EXTENSION_TYPE,
    MEMBER_ROLE,
    BYTE_OFFSET,
    ARGUMENT_COUNT
};

static const Signature tensor_signature = {"Tensor",
                                           {{"buffer", ARGUMENT_REQUIRED},
                                            {"dtype", ARGUMENT_REQUIRED},
                                            {"shape", ARGUMENT_REQUIRED},
                                            {"device", 0},
                                            {"aux_buffers", ARGUMENT_KEYWORD_ONLY},
                                            {"layout", ARGUMENT_KEYWORD_ONLY},
                                            {"quantization", ARGUMENT_KEYWORD_ONLY},
                                            {"statistics", ARGUMENT_KEYWORD_ONLY},
                                            {"shard", ARGUMENT_KEYWORD_ONLY},
                                            {"extension_type", ARGUMENT_KEYWORD_ONLY},
                                            {"member_role", ARGUMENT_KEYWORD_ONLY},
                                            {"byte_offset", ARGUMENT_KEYWORD_ONLY}}};

/* Everything the constructor was told, as the library wants it. */
typedef struct Plan {
    HurrayDescriptorFields fields;
    uint64_t shape[HURRAY_MAX_RANK];
    HurrayDevice device;
    HurrayQuantization quantization;
    HurrayStatistics statistics;
    HurrayShard shard;
    HurrayExtensionType extension_type;
    HurrayCompositeMember member;
} Plan;

/* ---- what is said ---- */

static bool refuse_layout(CoreState *state, const HurrayLayout *layout) {
    if (hurray_layout_class(layout->tag) == HURRAY_LAYOUT_CLASS_VIRTUAL) {
        PyErr_SetString(state->UnsupportedError,
                        "Tensor(): a composite layout has members instead of buffers: use "
                        "hurray.Composite");
        return false;
    }
    if (hurray_layout_tag_kind(layout->tag) == HURRAY_LAYOUT_TAG_RESERVED) {
        PyErr_SetString(state->UnsupportedError,
                        "Tensor(): nobody knows the buffers of an unknown layout; only a "
                        "Descriptor carries it");
        return false;
    }
    return true;
}

static bool read_layout(CoreState *state, PyObject *object, Plan *plan) {
    plan->fields.layout = (HurrayLayout){HURRAY_LAYOUT_ROW_MAJOR, {NULL}};
    return object == NULL ||
           (layout_for_rank(state, object, plan->fields.rank, &plan->fields.layout) &&
            refuse_layout(state, &plan->fields.layout));
}

static bool read_byte_offset(CoreState *state, PyObject *object, uint64_t *out) {
    *out = 0;
    if (object == NULL || argument_as_u64(object, "byte_offset", out)) return true;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return false;
    PyErr_Clear();
    argument_refuse(state->InvalidDescriptorError, "byte_offset", object,
                    "an integer from 0 below 2^64");
    return false;
}

/* A private dtype with its section, any other without. */
static bool read_extension_type(CoreState *state, PyObject *dtype, PyObject *object, Plan *plan) {
    if (object != NULL && !extension_type_as_value(state, object, &plan->extension_type)) {
        return false;
    }
    bool is_private = hurray_element_type_is_private(plan->fields.type_tag);
    if (object != NULL) plan->fields.extension_type = &plan->extension_type;
    if (is_private == (object != NULL)) return true;
    PyErr_Format(state->InvalidDescriptorError,
                 is_private ? "%R is private and must describe itself: pass extension_type="
                              "hurray.ExtensionType(...)"
                            : "extension_type goes with a private dtype; %R is not a private "
                              "extension",
                 dtype);
    return false;
}

static bool read_sections(CoreState *state, PyObject *const *values, Plan *plan) {
    HurrayDescriptorFields *fields = &plan->fields;
    if (values[QUANTIZATION] != NULL) {
        fields->quantization = &plan->quantization;
        if (!scheme_as_value(state, values[QUANTIZATION], "quantization", &plan->quantization)) {
            return false;
        }
    }
    if (values[STATISTICS] != NULL) {
        fields->statistics = &plan->statistics;
        if (!statistics_as_value(state, values[STATISTICS], &plan->statistics)) return false;
    }
    if (values[SHARD] != NULL) {
        fields->shard = &plan->shard;
        if (!shard_for_rank(state, values[SHARD], fields->rank, &plan->shard)) return false;
    }
    if (values[MEMBER_ROLE] != NULL) {
        fields->member = &plan->member;
        if (!member_role_as_value(values[MEMBER_ROLE], &plan->member)) return false;
    }
    return true;
}

static bool read_plan(CoreState *state, PyObject *const *values, Plan *plan) {
    HurrayDescriptorFields *fields = &plan->fields;
    *plan = (Plan){.device = {HURRAY_DEVICE_CPU, HURRAY_MEMORY_STANDARD, 0}};
    fields->shape = plan->shape;
    if (!dtype_as_tag(state, values[DTYPE], "dtype", &fields->type_tag)) return false;
    if (values[DEVICE] != NULL &&
        !device_as_value(state, values[DEVICE], "device", &plan->device)) {
        return false;
    }
    return read_extension_type(state, values[DTYPE], values[EXTENSION_TYPE], plan) &&
           shape_from_object(state, values[SHAPE], plan->shape, &fields->rank) &&
           read_layout(state, values[LAYOUT], plan) && read_sections(state, values, plan) &&
           read_byte_offset(state, values[BYTE_OFFSET], &fields->byte_offset);
}

/* ---- the buffers ---- */

typedef struct Views {
    uint32_t count; /* of those that were taken */
    Py_buffer *views;
} Views;

static void release_views(Views *views) {
    while (views->count != 0) PyBuffer_Release(&views->views[--views->count]);
    PyMem_Free(views->views);
}

static bool take_view(PyObject *object, const char *name, Views *views) {
    if (!PyObject_CheckBuffer(object)) {
        PyErr_Format(PyExc_TypeError, "Tensor(): %s must be bytes-like, not %.200s", name,
                     Py_TYPE(object)->tp_name);
        return false;
    }
    if (PyObject_GetBuffer(object, &views->views[views->count], PyBUF_SIMPLE) < 0) return false;
    views->count++;
    return true;
}

/* aux_buffers as a new tuple. One buffer is no sequence of them, though it may iterate. */
static PyObject *aux_tuple(CoreState *state, PyObject *object) {
    if (object == NULL) return PyTuple_New(0);
    if (PyObject_CheckBuffer(object) || !PySequence_Check(object) || PyUnicode_Check(object)) {
        return PyErr_Format(PyExc_TypeError,
                            "Tensor(): aux_buffers must be a sequence of bytes-like objects, not "
                            "%.200s",
                            Py_TYPE(object)->tp_name);
    }
    PyObject *tuple = PySequence_Tuple(object);
    if (tuple == NULL || PyTuple_GET_SIZE(tuple) < (Py_ssize_t)HURRAY_MAX_BUFFERS) return tuple;
    PyErr_Format(state->InvalidDescriptorError, "aux_buffers has %zd buffers; expected at most %u",
                 PyTuple_GET_SIZE(tuple), HURRAY_MAX_BUFFERS - 1);
    Py_DECREF(tuple);
    return NULL;
}

static bool take_views(PyObject *buffer, PyObject *aux, Views *views) {
    Py_ssize_t count = PyTuple_GET_SIZE(aux);
    views->views = PyMem_Malloc((size_t)(1 + count) * sizeof(Py_buffer));
    if (views->views == NULL) return PyErr_NoMemory() != NULL;
    bool taken = take_view(buffer, "buffer", views);
    for (Py_ssize_t i = 0; taken && i < count; i++) {
        char name[32];
        PyOS_snprintf(name, sizeof name, "aux_buffers[%d]", (int)i);
        taken = take_view(PyTuple_GET_ITEM(aux, i), name, views);
    }
    return taken;
}

/* ---- the structure ---- */

/* What each buffer has to be. */
typedef struct Need {
    uint64_t bytes; /* at least; exactly where `exact` */
    bool exact;
    const char *role; /* NULL where nobody knows what it is for */
} Need;

static bool is_no_such_buffer(HurrayStatus status) {
    return status == HURRAY_ERR_INDEX_OUT_OF_BOUNDS;
}

/* Sizes that depend on the scheme alone; an error is one of structure. */
static HurrayStatus need_parameters(const Plan *plan, Need *needs) {
    for (uint32_t i = 0; plan->fields.quantization != NULL && i < plan->fields.buffer_count; i++) {
        HurrayStatus status =
            hurray_descriptor_parameter_bytes(&plan->fields, i, &needs[i].bytes, &needs[i].role);
        if (status == HURRAY_OK) needs[i].exact = needs[i].bytes != HURRAY_UNKNOWN_SIZE;
        if (status != HURRAY_OK && !is_no_such_buffer(status)) return status;
        if (!needs[i].exact) needs[i].bytes = 0;
    }
    return HURRAY_OK;
}

static HurrayStatus need_layout(const Plan *plan, Need *needs) {
    for (uint32_t i = 0; i < plan->fields.buffer_count; i++) {
        uint64_t bytes;
        const char *role;
        HurrayStatus status = hurray_descriptor_required_bytes(&plan->fields, i, &bytes, &role);
        if (status == HURRAY_OK) {
            needs[i] = (Need){bytes, false, role};
        } else if (!is_no_such_buffer(status)) {
            return status;
        }
    }
    return HURRAY_OK;
}

/* All rules, as if every buffer were as large as it may have to be. */
static HurrayStatus check_structure(Plan *plan, Need *needs) {
    HurrayBufferHandle handles[HURRAY_MAX_BUFFERS];
    plan->fields.buffers = handles;
    HurrayStatus status = need_parameters(plan, needs);
    if (status != HURRAY_OK) return status;
    for (uint32_t i = 0; i < plan->fields.buffer_count; i++) {
        handles[i] = (HurrayBufferHandle){
            .byte_size = needs[i].exact ? needs[i].bytes : UINT64_MAX,
            .alignment = HURRAY_MIN_BUFFER_ALIGNMENT,
            .device_tag = plan->device.tag,
            .memory_class = plan->device.memory_class,
        };
    }
    status = hurray_descriptor_validate(&plan->fields);
    if (status == HURRAY_OK) status = hurray_descriptor_check_authored(&plan->fields);
    plan->fields.buffers = NULL;
    return status != HURRAY_OK ? status : need_layout(plan, needs);
}

static bool check_bytes(CoreState *state, const Plan *plan, const Views *views, const Need *needs) {
    for (uint32_t i = 0; i < views->count; i++) {
        uint64_t size = (uint64_t)views->views[i].len;
        if (needs[i].exact ? size == needs[i].bytes : size >= needs[i].bytes) continue;
        PyErr_Format(state->BufferError,
                     "buffer %u (%s) has %llu bytes; this dtype, shape and %s need %s%llu", i,
                     needs[i].role, (unsigned long long)size,
                     needs[i].exact ? "quantization" : "layout", needs[i].exact ? "exactly " : "",
                     (unsigned long long)needs[i].bytes);
        return false;
    }
    if (plan->fields.byte_offset <= (uint64_t)views->views[0].len) return true;
    PyErr_Format(state->BufferError, "buffer 0 has %zd bytes; byte_offset %llu is past its end",
                 views->views[0].len, (unsigned long long)plan->fields.byte_offset);
    return false;
}

/* ---- making ---- */

static void release_aligned(void *data, void *context) {
    (void)context;
    hurray_aligned_free(data);
}

/* A copy of the bytes in memory of our own; on another device than the CPU it stands in for it. */
static HurrayBuffer *copy_bytes(CoreState *state, const Py_buffer *view, HurrayDevice device) {
    size_t size = (size_t)view->len;
    uint32_t alignment =
        size < HURRAY_PAGE_ALIGNMENT ? HURRAY_MIN_BUFFER_ALIGNMENT : HURRAY_PAGE_ALIGNMENT;
    HurrayBufferInfo info = {
        .data = hurray_aligned_alloc(size, alignment, false),
        .byte_size = size,
        .alignment = alignment,
        .device = device,
        .flags = device.tag == HURRAY_DEVICE_CPU ? 0 : HURRAY_BUFFER_STAGED_ON_HOST,
    };
    if (info.data == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (size >= CORE_LARGE_COPY) {
        Py_BEGIN_ALLOW_THREADS
        memcpy(info.data, view->buf, size);
        Py_END_ALLOW_THREADS
    } else if (size != 0) {
        memcpy(info.data, view->buf, size);
    }
    HurrayBuffer *buffer = NULL;
    HurrayStatus status = hurray_buffer_create(&info, release_aligned, NULL, &buffer);
    if (status != HURRAY_OK) {
        hurray_aligned_free(info.data);
        raise_status(state, status);
    }
    return buffer;
}

static PyObject *assemble(CoreState *state, const Plan *plan, const Views *views) {
    HurrayBuffer *buffers[HURRAY_MAX_BUFFERS];
    HurrayTensor *tensor = NULL;
    uint32_t copied = 0;
    while (copied < views->count) {
        buffers[copied] = copy_bytes(state, &views->views[copied], plan->device);
        if (buffers[copied] == NULL) break;
        copied++;
    }
    if (copied == views->count) {
        HurrayStatus status = hurray_tensor_create(&plan->fields, buffers, &tensor);
        if (status == HURRAY_OK) return tensor_wrap(state, tensor);
        raise_status(state, status);
    }
    while (copied != 0) hurray_buffer_destroy(buffers[--copied]);
    return NULL;
}

static PyObject *make(CoreState *state, Plan *plan, const Views *views) {
    Need needs[HURRAY_MAX_BUFFERS] = {{0, false, NULL}};
    plan->fields.buffer_count = views->count;
    HurrayStatus status = check_structure(plan, needs);
    if (status != HURRAY_OK) return raise_status(state, status);
    return check_bytes(state, plan, views, needs) ? assemble(state, plan, views) : NULL;
}

PyObject *tensor_tp_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    CoreState *state = PyType_GetModuleState(type);
    PyObject *values[ARGUMENT_COUNT];
    Plan plan;
    if (!arguments_parse_new(&tensor_signature, args, kwargs, values) ||
        !read_plan(state, values, &plan)) {
        return NULL;
    }
    PyObject *aux = aux_tuple(state, values[AUX_BUFFERS]);
    if (aux == NULL) return NULL;
    Views views = {0, NULL};
    PyObject *tensor = NULL;
    if (take_views(values[BUFFER], aux, &views)) tensor = make(state, &plan, &views);
    release_views(&views);
    Py_DECREF(aux);
    return tensor;
}

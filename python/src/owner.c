/*
 * A Python object that keeps memory alive for the library, and its release from wherever the last
 * reference is dropped: a consumer's C++ thread that never saw Python, another interpreter, or the
 * middle of interpreter shutdown.
 */
#include "core.h"

typedef struct Owner {
    PyObject *object;
    PyInterpreterState *interpreter; /* where the object lives */
    int64_t id;                      /* of that interpreter: addresses can come back */
} Owner;

void *owner_new(PyObject *object) {
    Owner *owner = PyMem_RawMalloc(sizeof *owner);
    if (owner == NULL) return PyErr_NoMemory();
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    *owner = (Owner){Py_NewRef(object), interpreter, PyInterpreterState_GetID(interpreter)};
    return owner;
}

void owner_discard(void *context) {
    Owner *owner = context;
    Py_DECREF(owner->object);
    PyMem_RawFree(owner);
}

static bool is_finalizing(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return !Py_IsInitialized() || Py_IsFinalizing();
#else
    return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

/* The thread state this thread is attached with; NULL when it is not attached to Python. */
static PyThreadState *attached_state(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#elif PY_VERSION_HEX >= 0x030C0000
    return _PyThreadState_UncheckedGet();
#else
    /*
     * Up to 3.11 the unchecked getter tells who holds the one GIL, which may be another thread, and
     * PyGILState_Check says yes to everybody once there was a subinterpreter.
     */
    PyThreadState *holder = _PyThreadState_UncheckedGet();
    PyThreadState *first = PyGILState_GetThisThreadState(); /* that this thread ever had */
    if (holder == NULL || first == NULL) return NULL;
    return holder == first || holder->thread_id == PyThread_get_thread_ident() ? holder : NULL;
#endif
}

/* Whether PyGILState_Ensure attaches this thread to the main interpreter. It goes to the one that the
 * thread was first attached to, which may be another: a thread that was started there. */
static bool belongs_to_main(void) {
    PyThreadState *first = PyGILState_GetThisThreadState();
    return first == NULL || PyThreadState_GetInterpreter(first) == PyInterpreterState_Main();
}

/* Whether an interpreter still exists. A subinterpreter may have ended while a consumer's memory
 * outlived it; then there is nothing left to release. */
static bool is_alive(const Owner *owner) {
    PyInterpreterState *interpreter = PyInterpreterState_Head();
    while (interpreter != NULL && (interpreter != owner->interpreter ||
                                   PyInterpreterState_GetID(interpreter) != owner->id)) {
        interpreter = PyInterpreterState_Next(interpreter);
    }
    return interpreter != NULL;
}

/* Drops the reference with a thread state made for it, in an interpreter other than the one this
 * thread is attached to, if any. */
static void release_elsewhere(Owner *owner) {
    if (!is_alive(owner)) return;
    PyThreadState *before = attached_state() != NULL ? PyEval_SaveThread() : NULL;
    PyThreadState *visiting = PyThreadState_New(owner->interpreter);
    if (visiting != NULL) {
        PyEval_RestoreThread(visiting);
        Py_DECREF(owner->object);
        PyThreadState_Clear(visiting);
        PyThreadState_DeleteCurrent();
    }
    if (before != NULL) PyEval_RestoreThread(before);
}

void owner_release(void *data, void *context) {
    (void)data;
    Owner *owner = context;
    PyThreadState *attached = attached_state();
    if (attached != NULL && PyThreadState_GetInterpreter(attached) == owner->interpreter) {
        Py_DECREF(owner->object);
    } else if (is_finalizing()) {
        /* Attaching now would hang or kill this thread; the process is about to give all back. */
    } else if (owner->interpreter == PyInterpreterState_Main() && attached == NULL &&
               belongs_to_main()) {
        PyGILState_STATE gil = PyGILState_Ensure();
        Py_DECREF(owner->object);
        PyGILState_Release(gil);
    } else {
        release_elsewhere(owner);
    }
    PyMem_RawFree(owner);
}
